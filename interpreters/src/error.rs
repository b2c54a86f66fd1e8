//! The errors for requests that cannot be answered.

use std::fmt;

use thiserror::Error;

/// A field of the request, or of an object in the request, has a value that makes an answer impossible. Karmada copies
/// this text into an event of the object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {problem}")]
pub struct InterpretError {
    /// Path of the field.
    pub field: String,
    /// The problem with the value, and the valid values.
    pub problem: String,
}

impl InterpretError {
    pub(crate) fn new(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn missing(field: impl Into<String>) -> Self {
        Self::new(field, "is missing")
    }
}
