//! The context of one reconciliation.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;

/// Whether a reconciliation has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Writes {
    /// No write was sent.
    None,
    /// Every write failed.
    Failed,
    /// At least one write succeeded.
    Done,
}

/// The input of a reconciliation besides its key. Code that writes for the reconciliation or reads the time takes the
/// context as an argument.
#[derive(Debug)]
pub struct ReconcileContext {
    clock: Clock,
    /// The time of the first event that triggered the work.
    since: Option<Instant>,
    /// The [`Writes`] of the reconciliation, as a number.
    writes: AtomicU8,
}

impl ReconcileContext {
    /// Returns the context of a reconciliation that has not written yet. `since` is the time of the first event that
    /// triggered the reconciliation. It is `None` if there was no event, for example at a resync.
    pub fn new(clock: Clock, since: Option<Instant>) -> Self {
        Self {
            clock,
            since,
            writes: AtomicU8::new(Writes::None as u8),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Records that the reconciliation has written. The write uses the write budget of the tenant. Returns the time
    /// since the first event that triggered the reconciliation, or `None` if there was no event.
    pub fn note_write(&self) -> Option<Duration> {
        self.note(Writes::Done);
        self.since.map(|since| since.elapsed())
    }

    /// Records that a write of the reconciliation failed. The write uses the write budget of the tenant, because it may
    /// have cost the API server as much as a write that succeeds.
    pub fn note_failed_write(&self) {
        self.note(Writes::Failed);
    }

    fn note(&self, writes: Writes) {
        self.writes.fetch_max(writes as u8, Ordering::Relaxed);
    }

    /// Returns whether the reconciliation has written.
    pub(super) fn writes(&self) -> Writes {
        match self.writes.load(Ordering::Relaxed) {
            writes if writes == Writes::Done as u8 => Writes::Done,
            writes if writes == Writes::Failed as u8 => Writes::Failed,
            _ => Writes::None,
        }
    }
}
