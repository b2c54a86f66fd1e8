//! The context of one reconciliation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;

/// The input of a reconciliation besides its key. Code that writes for the reconciliation or reads the time takes the
/// context as an argument.
#[derive(Debug)]
pub struct ReconcileContext {
    clock: Clock,
    /// The time of the first event that triggered the work.
    since: Option<Instant>,
    wrote: AtomicBool,
}

impl ReconcileContext {
    /// Returns the context of a reconciliation that has not written yet. `since` is the time of the first event that
    /// triggered the reconciliation. It is `None` if there was no event, for example at a resync.
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

    /// Records that the reconciliation has written. The write uses the write budget of the tenant. Returns the time
    /// since the first event that triggered the reconciliation, or `None` if there was no event.
    pub fn note_write(&self) -> Option<Duration> {
        self.wrote.store(true, Ordering::Relaxed);
        self.since.map(|since| since.elapsed())
    }

    /// Returns whether the reconciliation has written.
    pub(super) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }
}
