//! Counts how often a key failed in a row, and logs the failures.

use std::fmt::Debug;
use std::time::Duration;

use tracing::{debug, warn};

/// Wait after the first failure. The wait doubles with each further failure.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// Longest wait after a failure of a key.
const BACKOFF_MAX: Duration = Duration::from_mins(1);

/// Returns the wait after this many failures in a row.
pub(super) fn backoff(failures: u32, longest: Duration) -> Duration {
    let doubled = failures.saturating_sub(1).min(16);
    longest.min(BACKOFF_MIN.saturating_mul(1 << doubled))
}

/// The failures of a key since it last succeeded.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    /// The error that was logged last.
    reported: Option<Box<str>>,
}

impl Failures {
    /// Counts and logs a failure, and returns the wait after it. A first failure is often only a conflict with another
    /// writer, so warnings start at the second failure in a row. The same error is logged only once.
    pub(super) fn add(&mut self, controller: &str, key: &impl Debug, error: &str) -> Duration {
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            debug!(controller, ?key, error, "reconciliation failed; retrying");
        } else if self.reported.as_deref() != Some(error) {
            warn!(
                controller,
                ?key,
                error,
                "reconciliation failed again; retrying"
            );
            self.reported = Some(error.into());
        }
        backoff(self.count, BACKOFF_MAX)
    }
}
