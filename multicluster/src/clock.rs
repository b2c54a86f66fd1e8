//! The one place that reads the wall clock.

use jiff::Timestamp;

/// The current time. Everything else takes the time as an argument or a function like this one.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
