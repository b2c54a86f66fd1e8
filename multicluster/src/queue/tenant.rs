//! The keys of one tenant, and the state of each.

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

/// Longest time until a settled key is reconciled again without an event. This resync covers events that the watches
/// lost.
pub(super) const RESYNC: Duration = Duration::from_mins(10);

/// Longest wait between two probes of an unreachable API server, and longest Retry-After that is respected: 30 s, the
/// same as between two lists (client-go's default).
pub(super) const PROBE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The state of one tenant, and its keys.
#[derive(Debug)]
pub(super) struct TenantState<K> {
    pub(super) entries: HashMap<Arc<K>, KeyEntry>,
    /// The keys that may be taken, the next one first.
    pub(super) ready: VecDeque<Arc<K>>,
    /// Number of keys whose reconciliation is running.
    pub(super) running: usize,
    /// Number of keys whose reconciliation has stalled.
    pub(super) stalled: usize,
    /// Set while the tenant has no keys and its write budget is not whole. When the timer expires, the tenant is
    /// forgotten.
    pub(super) idle: Option<Timer>,
    /// The tenant's place in one of the two lines of tenants; `None` if it is in neither.
    pub(super) ticket: Option<Ticket>,
    pub(super) write_budget: WriteBudget,
    /// Set while the write budget of the tenant is used up. When the timer expires, the next key may be taken.
    pub(super) throttled: Option<Timer>,
    /// Number of reconciliations that have reached the tenant's API server.
    pub(super) reached: u64,
    /// Present while the tenant's API server is unreachable.
    pub(super) breaker: Option<CircuitBreaker>,
    /// Whether the tenant's API server refused a write because the tenant is suspended.
    pub(super) suspended: bool,
    /// The keys whose write was refused because the tenant is suspended.
    pub(super) refused_keys: HashSet<Arc<K>>,
}

/// A place in one of the lines of tenants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// Whether the place is in the line of unreachable tenants that may be probed.
    pub(super) probe: bool,
}

/// Holds back the keys of a tenant whose API server is unreachable.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// Number of failures in a row.
    pub(super) failures: u32,
    /// The timer of the next probe; `None` if the API server may be probed now.
    pub(super) timer: Option<Timer>,
}

/// The state of one key.
#[derive(Debug, Default)]
pub(super) struct KeyEntry {
    pub(super) state: KeyState,
    /// The time of the first event that added the key after its last success.
    pub(super) since: Option<Instant>,
    /// The failures since its last success. Boxed because few keys have any.
    pub(super) failures: Option<Box<Failures>>,
    /// Set if the last reconciliation did not reach the API server. The value is the number of reconciliations of the
    /// tenant that had reached the API server before this key first failed to reach it.
    pub(super) unreached: Option<u64>,
    /// Whether its last write was refused because the tenant is suspended.
    pub(super) suspended: bool,
}

/// The current state of a key.
#[derive(Debug, Default)]
pub(super) enum KeyState {
    #[default]
    Ready,
    Running {
        /// The time at which the key was added during the reconciliation, if it was added.
        again: Option<Instant>,
        /// Whether its tenant was forgotten during the reconciliation. The result is then ignored.
        forgotten: bool,
        /// Expires when the reconciliation has run for so long that it no longer counts towards
        /// [`Limits::concurrency`]; `None` afterwards.
        ///
        /// [`Limits::concurrency`]: super::limits::Limits::concurrency
        stalls: Option<Timer>,
    },
    Waiting(Timer),
    /// Waits for the Retry-After of an API server. Unlike other waits, no event shortens this wait.
    Deferred {
        timer: Timer,
        /// The end of the backoff or resync of the key, which may be later. `None` if an event has added the key, or
        /// its tenant was released.
        until: Option<Instant>,
    },
}

/// The result of a reconciliation, as far as it concerns the tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantReport {
    pub(super) outage: Option<Outage>,
    /// Whether the API server answered.
    pub(super) reached: bool,
    /// Whether the key succeeded after its last write was rejected because of a suspension.
    pub(super) unsuspended: bool,
}

/// The next state of a reconciled key.
#[derive(Debug)]
pub(super) enum Next {
    /// The key is ready, in front of all other keys of the tenant.
    First,
    /// The key waits for this time.
    After(Duration),
    /// The key waits for the Retry-After of the API server, and until its backoff or resync has ended too.
    Deferred {
        retry_after: Duration,
        whole: Duration,
    },
    /// The queue forgets the key.
    Never,
}

impl<K> TenantState<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            running: 0,
            stalled: 0,
            idle: None,
            ticket: None,
            write_budget: WriteBudget::default(),
            throttled: None,
            reached: 0,
            breaker: None,
            suspended: false,
            refused_keys: HashSet::new(),
        }
    }

    /// Returns the number of keys whose reconciliation is running and has not stalled.
    pub(super) fn unstalled(&self) -> usize {
        self.running - self.stalled
    }

    /// Returns whether the next key may be taken. An unreachable API server is probed with one key at a time.
    pub(super) fn may_run(&self, per_tenant: usize) -> bool {
        !self.ready.is_empty()
            && match &self.breaker {
                None => self.running < per_tenant,
                Some(breaker) => breaker.timer.is_none() && self.running == 0,
            }
    }

    /// Takes the next key. During an outage, a key that did not reach the API server is put in front, and keys are
    /// taken from the back. So if only some keys fail, the other keys are probed first.
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

    /// Returns the result of a reconciliation of this key for its tenant. `unreachable` is true if the breaker of the
    /// tenant is open. `reached` is the number of reconciliations of the tenant that have reached the API server.
    ///
    /// A success without a write may not have sent a request. It counts as an answer only if this key failed to reach
    /// the API server before. If other keys have reached the API server since the first failure of this key, the
    /// failure concerns only this key and is not an outage.
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
                unsuspended: false,
            };
        }
        let is_suspended = outage == Some(Outage::Suspended);
        let was_suspended = mem::replace(&mut self.suspended, is_suspended);
        let was_unreached = self.unreached.take().is_some();
        TenantReport {
            outage,
            reached: wrote || was_unreached || is_suspended,
            unsuspended: was_suspended && !is_suspended,
        }
    }

    /// Returns the next state of the key after a success.
    pub(super) fn succeeded(&mut self, key: &impl Hash, outcome: Outcome) -> Next {
        (self.since, self.failures) = (None, None);
        match outcome {
            Outcome::Settled => Next::After(resync_after(key)),
            Outcome::Again(after) => Next::After(after),
            Outcome::Gone => Next::Never,
        }
    }

    /// Returns the next state of the key after a failure. A failure that is an outage of the tenant does not count as a
    /// failure of the key.
    pub(super) fn failed(
        &mut self,
        controller: &str,
        key: &(impl Debug + Hash),
        outage: Option<Outage>,
        error: &impl Failure,
    ) -> Next {
        let next = match outage {
            Some(Outage::Unreachable) => Next::First,
            Some(Outage::Suspended) => Next::After(resync_after(key)),
            None => {
                let failures = self.failures.get_or_insert_default();
                Next::After(failures.add(controller, key, &error.to_string()))
            }
        };
        // The key waits for its Retry-After even if other keys of the tenant succeed meanwhile.
        let Some(retry_after) = error.retry_after() else {
            return next;
        };
        let retry_after = retry_after.min(PROBE_WAIT_MAX);
        let whole = match next {
            Next::After(wait) => wait.max(retry_after),
            _ => retry_after,
        };
        Next::Deferred { retry_after, whole }
    }
}

/// Returns the time until the resync of this key: between half of [`RESYNC`] and the whole. The time depends only on
/// the key. Keys that were reconciled together at a start therefore have different resync times.
pub(super) fn resync_after(key: &impl Hash) -> Duration {
    const STEPS: u32 = 1 << 16;
    let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(key);
    let step = u32::try_from(hash % u64::from(STEPS)).unwrap_or_default();
    RESYNC / 2 + RESYNC / 2 * step / STEPS
}
