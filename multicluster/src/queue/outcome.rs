//! The result of a reconciliation.

use std::fmt::Display;
use std::time::Duration;

/// The result of a reconciliation without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Settled,
    /// Something is pending, and no watch reports its end. Reconcile again after this time.
    Again(Duration),
    /// The object does not exist, or another controller owns it. The queue forgets the key until an event adds it
    /// again.
    Gone,
}

/// The error of a reconciliation that failed.
pub trait Failure: Display {
    /// Returns the outage of the whole tenant, if the failure is a sign of an outage.
    fn outage(&self) -> Option<Outage>;

    /// Returns the longest Retry-After of the API servers' answers, if there was one.
    fn retry_after(&self) -> Option<Duration>;
}

/// The reason why other keys of the same tenant would fail too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server cannot be reached, or cannot answer. The queue probes it with one key at a time until a key
    /// succeeds. The wait between probes grows.
    Unreachable,
    /// The API server refuses writes of this kind until an administrator allows them again. Other keys are still
    /// reconciled, because they may need other writes. This key is retried by the resync, by an event or by
    /// [`Queue::release`].
    ///
    /// [`Queue::release`]: super::Queue::release
    Suspended,
}
