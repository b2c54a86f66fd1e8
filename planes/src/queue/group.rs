//! The keys of one group, and where each of them is.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failures::Failures;
use super::timers::Timer;

/// How long a settled key rests at most before it is looked at again without an event: the net below the watches.
pub(super) const RESYNC: Duration = Duration::from_mins(10);

/// The keys of one group.
#[derive(Debug)]
pub(super) struct Group<K> {
    pub(super) entries: HashMap<Arc<K>, Entry>,
    /// The keys that may be worked off, the next one first.
    pub(super) ready: VecDeque<Arc<K>>,
    /// How many of the keys are being worked off.
    pub(super) running: usize,
    /// Its place in the line of groups.
    pub(super) ticket: Option<u64>,
}

/// What is known of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    /// When an event first told of it, since it last succeeded.
    pub(super) since: Option<Instant>,
    /// What has failed since it last succeeded; few keys have that.
    pub(super) failures: Option<Box<Failures>>,
}

/// Where a key is.
#[derive(Debug)]
pub(super) enum Place {
    Ready,
    Running {
        /// When it was added meanwhile, if it was.
        again: Option<Instant>,
        /// Whether its group was forgotten meanwhile; what becomes of it does not matter any more.
        forgotten: bool,
    },
    Waiting(Timer),
}

impl<K> Group<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            running: 0,
            ticket: None,
        }
    }

    /// Whether the next key may be taken.
    pub(super) fn may_run(&self, per_group: usize) -> bool {
        !self.ready.is_empty() && self.running < per_group
    }
}

impl Entry {
    pub(super) fn new(since: Instant) -> Self {
        Self {
            place: Place::Ready,
            since: Some(since),
            failures: None,
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
