//! The context of one reconciliation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;

/// The input of a reconciliation besides its key. All code that writes for the reconciliation, or reads the time, takes
/// it as an argument.
#[derive(Debug)]
pub struct ReconcileContext {
    clock: Clock,
    /// The time of the first event that triggered the work.
    since: Option<Instant>,
    wrote: AtomicBool,
}

impl ReconcileContext {
    /// Returns the context of a reconciliation that has not written yet. `since` is the time of the first event that
    /// triggered it; `None` without an event, as in a resync.
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

    /// Records that the reconciliation has written, which uses the write budget of its tenant. Returns the time since
    /// the first event that triggered the work, or `None` without an event.
    pub fn note_write(&self) -> Option<Duration> {
        self.wrote.store(true, Ordering::Relaxed);
        self.since.map(|since| since.elapsed())
    }

    /// Returns whether the reconciliation has written.
    pub(super) fn has_written(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }
}
