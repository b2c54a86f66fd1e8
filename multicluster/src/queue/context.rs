//! The context of one reconciliation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;

/// What a reconciliation is given beside its key. Everything that writes for it, or needs the time, takes it as an argument.
#[derive(Debug)]
pub struct ReconcileContext {
    clock: Clock,
    /// When an event first told of the work.
    since: Option<Instant>,
    wrote: AtomicBool,
}

impl ReconcileContext {
    /// Returns the context of a reconciliation that has not written yet. `since` is when an event first told of its work;
    /// `None` if no event did, as in a resync.
    pub fn new(clock: Clock, since: Option<Instant>) -> Self {
        Self {
            clock,
            since,
            wrote: AtomicBool::new(false),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Notes that the reconciliation has written: the write budget of its tenant pays for it. Returns how long ago an event
    /// told of the work, if one did.
    pub fn note_write(&self) -> Option<Duration> {
        self.wrote.store(true, Ordering::Relaxed);
        self.since.map(|since| since.elapsed())
    }

    /// Returns whether the reconciliation has written.
    pub(super) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }
}
