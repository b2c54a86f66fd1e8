//! The keys of one tenant, and where each of them is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failures::Failures;
use super::outcome::{Failure, Outage, Outcome};
use super::timers::Timer;
use super::write_budget::WriteBudget;

/// How long a settled key rests at most before it is looked at again without an event: the net below the watches.
pub(super) const RESYNC: Duration = Duration::from_mins(10);

/// The keys of one tenant.
#[derive(Debug)]
pub(super) struct TenantState<K> {
    pub(super) entries: HashMap<Arc<K>, KeyEntry>,
    /// The keys that may be worked off, the next one first.
    pub(super) ready: VecDeque<Arc<K>>,
    /// How many of the keys are being worked off.
    pub(super) running: usize,
    /// Its place in the line of tenants.
    pub(super) ticket: Option<Ticket>,
    pub(super) write_budget: WriteBudget,
    /// When its next key may be taken, while it has written as much as it may.
    pub(super) rest: Option<Timer>,
    /// How often a key has reached its API server.
    pub(super) reached: u64,
    /// While its API server cannot be reached.
    pub(super) breaker: Option<CircuitBreaker>,
    /// Whether a write was refused because it is suspended.
    pub(super) suspended: bool,
    /// The keys that wait because of that.
    pub(super) refused_keys: HashSet<Arc<K>>,
}

/// A place in one of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// Whether it is the line of tenants that are tried while their API servers cannot be reached.
    pub(super) probe: bool,
}

/// How a tenant whose API server cannot be reached is left in peace.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// How often it has not been reached in a row.
    pub(super) failures: u32,
    /// When it may be tried again; nothing when it may now.
    pub(super) timer: Option<Timer>,
}

/// What is known of one key.
#[derive(Debug, Default)]
pub(super) struct KeyEntry {
    pub(super) state: KeyState,
    /// When an event first told of it, since it last succeeded.
    pub(super) since: Option<Instant>,
    /// What has failed since it last succeeded; few keys have that.
    pub(super) failures: Option<Box<Failures>>,
    /// Whether its API server was not reached when it was last worked off, and how often others had reached it until then.
    pub(super) unreached: Option<u64>,
    /// Whether what it wrote last was refused because the tenant is suspended.
    pub(super) suspended: bool,
}

/// Where a key is.
#[derive(Debug, Default)]
pub(super) enum KeyState {
    #[default]
    Ready,
    Running {
        /// When it was added meanwhile, if it was.
        again: Option<Instant>,
        /// Whether its tenant was forgotten meanwhile; what becomes of it does not matter any more.
        forgotten: bool,
    },
    Waiting(Timer),
}

/// What the end of a reconciliation says of the tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantReport {
    pub(super) outage: Option<Outage>,
    /// Whether its API server has answered.
    pub(super) reached: bool,
    /// Whether it went well with a key whose tenant was suspended.
    pub(super) allowed: bool,
}

/// What becomes of a key that has been worked off.
#[derive(Debug)]
pub(super) enum Next {
    /// It is ready, before all others.
    First,
    /// It rests.
    After(Duration),
    /// It is forgotten.
    Never,
}

impl<K> TenantState<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            running: 0,
            ticket: None,
            write_budget: WriteBudget::default(),
            rest: None,
            reached: 0,
            breaker: None,
            suspended: false,
            refused_keys: HashSet::new(),
        }
    }

    /// Whether the next key may be taken. An API server that cannot be reached is tried with one key at a time.
    pub(super) fn may_run(&self, per_tenant: usize) -> bool {
        !self.ready.is_empty()
            && match &self.breaker {
                None => self.running < per_tenant,
                Some(breaker) => breaker.timer.is_none() && self.running == 0,
            }
    }

    /// The next key. Of those that did not reach the API server, which are in front, each waits until all others have been
    /// tried: if only these cannot be written, they are not in the way of the others.
    pub(super) fn next(&mut self) -> Option<Arc<K>> {
        match &self.breaker {
            None => self.ready.pop_front(),
            Some(_) => self.ready.pop_back(),
        }
    }
}

impl KeyEntry {
    pub(super) fn new(since: Instant) -> Self {
        Self {
            since: Some(since),
            ..Self::default()
        }
    }

    /// What the end of a reconciliation says of the tenant, which is unreachable or not, and in which this many keys have reached
    /// the API server.
    ///
    /// Where nothing had to be written, no one may have asked the API server, unless it was for this key that it was not
    /// reached. If others have reached it since, the failure is the key's own.
    pub(super) fn report(
        &mut self,
        failure: Option<&impl Failure>,
        wrote: bool,
        unreachable: bool,
        reached: u64,
    ) -> TenantReport {
        let outage = failure.and_then(Failure::outage);
        if outage == Some(Outage::Unreachable) {
            let before = *self.unreached.get_or_insert(reached);
            return TenantReport {
                outage: outage.filter(|_| unreachable || before == reached),
                reached: false,
                allowed: false,
            };
        }
        let is_suspended = outage == Some(Outage::Suspended);
        let was_suspended = mem::replace(&mut self.suspended, is_suspended);
        let was_unreached = self.unreached.take().is_some();
        TenantReport {
            outage,
            reached: wrote || was_unreached || is_suspended,
            allowed: was_suspended && !is_suspended,
        }
    }

    /// What comes after a success.
    pub(super) fn succeeded(&mut self, key: &impl Hash, outcome: Outcome) -> Next {
        (self.since, self.failures) = (None, None);
        match outcome {
            Outcome::Settled => Next::After(rest(key)),
            Outcome::Again(after) => Next::After(after),
            Outcome::Gone => Next::Never,
        }
    }

    /// What comes after a failure. One that is due to the tenant is no fault of the key.
    pub(super) fn failed(
        &mut self,
        controller: &str,
        key: &(impl Debug + Hash),
        outage: Option<Outage>,
        error: &impl Failure,
    ) -> Next {
        match outage {
            Some(Outage::Unreachable) => Next::First,
            Some(Outage::Suspended) => Next::After(rest(key)),
            None => {
                let failures = self.failures.get_or_insert_default();
                Next::After(failures.add(controller, key, &error.to_string()))
            }
        }
    }
}

/// How long this key rests: between half of [`RESYNC`] and the whole, so that the keys of a start do not come back together.
/// A key always rests equally long, which keeps them apart.
pub(super) fn rest(key: &impl Hash) -> Duration {
    const STEPS: u32 = 1 << 16;
    let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(key);
    let step = u32::try_from(hash % u64::from(STEPS)).unwrap_or_default();
    RESYNC / 2 + RESYNC / 2 * step / STEPS
}
