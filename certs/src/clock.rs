//! The source of the current time.

use jiff::Timestamp;

/// Returns the current time. Tests pass a clock of their own.
pub type Clock = fn() -> Timestamp;
