//! The source of the current time.

use jiff::Timestamp;

/// A function that returns the current time. Tests pass their own function.
pub type Clock = fn() -> Timestamp;
