//! A difference between two answers.

use std::fmt;

use serde_json::Value;

use super::laws::Law;
use super::value_diff::FieldPath;
use crate::caller::Answer;
use crate::error::Quoted;

/// One side of a difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// The field is absent.
    Absent,
    /// The value of the field.
    Value(Value),
    /// The interpreter refuses the object, with this error.
    Refused(String),
    /// Nothing answers this operation, so Karmada knows nothing.
    Unanswered,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Value(Value::String(text)) => write!(f, "{}", Quoted(text)),
            Self::Value(value) => {
                /// Longest value, in characters.
                const SHOWN: usize = 160;
                let text = value.to_string();
                match text.char_indices().nth(SHOWN) {
                    Some((end, _)) => write!(f, "{}...", text.get(..end).unwrap_or_default()),
                    None => f.write_str(&text),
                }
            }
            // The text can repeat a value of the object, which must not write lines of the report.
            Self::Refused(problem) => {
                write!(f, "error: {}", problem.replace(char::is_control, " "))
            }
            Self::Unanswered => f.write_str("no answer"),
        }
    }
}

/// A field in which the answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Path of the field in the answer, or in the object that results.
    pub path: FieldPath,
    /// The side of today.
    pub former: Side,
    /// The side of the native interpreter.
    pub native: Side,
    /// The law that intends the difference. `None` if the difference is unexplained.
    pub law: Option<&'static Law>,
}

/// The answer of an interpreter, or the reason why there is none.
#[derive(Debug)]
pub(super) enum Answered<'a> {
    Answer(Answer<'a>),
    Refused(String),
    Unanswered,
}
