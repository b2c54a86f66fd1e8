//! How a reconciliation ends.

use std::fmt::Display;
use std::time::Duration;

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing to do until something changes.
    Settled,
    /// Something is pending that no watch reports: reconcile again after this time.
    Again(Duration),
    /// The object does not exist, or another controller owns it. The queue forgets the key until an event adds it again.
    Gone,
}

/// Why a reconciliation failed.
pub trait Failure: Display {
    /// Returns the outage of the whole tenant, if the failure is evidence of one.
    fn outage(&self) -> Option<Outage>;

    /// Returns the longest Retry-After that an API server answered with, if one did.
    fn retry_after(&self) -> Option<Duration>;
}

/// Why other keys of the same tenant would fail too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server cannot be reached, or cannot answer. The queue probes it with one key at a time, with growing waits,
    /// until one succeeds.
    Unreachable,
    /// The API server refuses writes of this kind until an administrator allows them again. Other keys continue,
    /// because they may need other writes. The resync, an event or [`Queue::release`] retries this key.
    ///
    /// [`Queue::release`]: super::Queue::release
    Suspended,
}
