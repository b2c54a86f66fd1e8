//! The only module that reads the wall clock.

use jiff::Timestamp;

/// A function that returns the current time: [`now`], or a function of a test.
pub type Clock = fn() -> Timestamp;

/// Returns the current time. All other code takes the time, or a [`Clock`], as an argument.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
