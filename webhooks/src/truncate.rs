//! Shortens texts from requests and from other programs, so that an answer cannot become as large as its request.

use std::borrow::Cow;
use std::fmt;

/// Maximum length of a quoted message from another program, in bytes.
const MESSAGE_MAX: usize = 512;

/// Prints the number of bytes that were cut off.
pub(crate) struct Truncated(pub(crate) usize);

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "... ({} more bytes)", self.0)
    }
}

/// Cuts a text from outside after [`MESSAGE_MAX`] bytes. A character is never split.
pub(crate) fn truncated(text: &str) -> Cow<'_, str> {
    match text.split_at(text.floor_char_boundary(MESSAGE_MAX)) {
        (_, "") => text.into(),
        (shown, rest) => format!("{shown}{}", Truncated(rest.len())).into(),
    }
}
