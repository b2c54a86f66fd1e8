//! How often a key has failed in a row, and what was said about it.

use std::fmt::Debug;
use std::time::Duration;

use tracing::{debug, warn};

/// Wait after the first failure; it doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// Longest wait after a failure of a key.
const BACKOFF_MAX: Duration = Duration::from_mins(1);

/// The wait after this many failures in a row.
pub(super) fn backoff(failures: u32, longest: Duration) -> Duration {
    let doubled = failures.saturating_sub(1).min(16);
    longest.min(BACKOFF_MIN.saturating_mul(1 << doubled))
}

/// The failures of a key since it last succeeded.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    /// The failure that was reported last.
    reported: Option<Box<str>>,
}

impl Failures {
    /// The time to wait after this failure. A first one is often only that someone was faster; from the second in a row
    /// on, each different failure of a key is reported once.
    pub(super) fn add(&mut self, controller: &str, key: &impl Debug, error: &str) -> Duration {
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            debug!(
                controller,
                ?key,
                error,
                "reconciliation failed; it is tried again"
            );
        } else if self.reported.as_deref() != Some(error) {
            warn!(
                controller,
                ?key,
                error,
                "reconciliation failed again; it is tried again"
            );
            self.reported = Some(error.into());
        }
        backoff(self.count, BACKOFF_MAX)
    }
}
