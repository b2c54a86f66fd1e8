//! The errors for requests that cannot be answered.

use std::fmt::{self, Write};

use thiserror::Error;

/// Longest path of a field in an error, in bytes. A path contains names of resources from the request.
const FIELD_MAX: usize = 256;
/// Longest description of a problem, in bytes. A description can repeat a value of the request.
const PROBLEM_MAX: usize = 512;
/// Longest value of the request that an error repeats, in bytes.
const QUOTED_MAX: usize = 128;

/// A field of the request, or of an object in the request, has a value that makes an answer impossible. Karmada copies
/// this text into an event of the object. Long texts are cut.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {problem}")]
pub struct InterpretError {
    /// Path of the field.
    pub field: String,
    /// The problem with the value, and the valid values.
    pub problem: String,
}

impl InterpretError {
    pub(crate) fn new(field: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self {
            field: cut(field, FIELD_MAX),
            problem: cut(problem, PROBLEM_MAX),
        }
    }

    pub(crate) fn missing(field: impl fmt::Display) -> Self {
        Self::new(field, "is missing")
    }
}

/// Prints a value of the request in quotes. A long value is cut.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_at(self.0.floor_char_boundary(QUOTED_MAX)) {
            (text, "") => write!(f, "{text:?}"),
            (start, rest) => write!(f, "{start:?}... ({} more bytes)", rest.len()),
        }
    }
}

/// Prints a value, and stops after `max` bytes. The memory for the text is bounded, also while the text is printed.
fn cut(value: impl fmt::Display, max: usize) -> String {
    struct Cut {
        text: String,
        max: usize,
    }
    impl Write for Cut {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            let room = self.max - self.text.len();
            let kept = part.floor_char_boundary(room);
            self.text.push_str(part.get(..kept).unwrap_or_default());
            match kept == part.len() {
                true => Ok(()),
                false => Err(fmt::Error),
            }
        }
    }
    let mut cut = Cut {
        text: String::new(),
        max,
    };
    if write!(cut, "{value}").is_err() {
        cut.text.push_str("...");
    }
    cut.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_fields_and_problems_are_cut() {
        let long = "ä".repeat(10_000);
        let InterpretError { field, problem } = InterpretError::new(&long, &long);
        assert_eq!(field, format!("{}...", "ä".repeat(128)));
        assert_eq!(problem, format!("{}...", "ä".repeat(256)));
        let error = InterpretError::new("a", "b");
        assert_eq!(error.to_string(), "a: b");
    }

    #[test]
    fn a_quoted_value_is_cut() {
        assert_eq!(Quoted("a\"b").to_string(), r#""a\"b""#);
        let cut = format!("\"{}\"... (72 more bytes)", "a".repeat(128));
        assert_eq!(Quoted(&"a".repeat(200)).to_string(), cut);
    }
}
