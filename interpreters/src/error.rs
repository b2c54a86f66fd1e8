//! Why a request cannot be answered.

use std::fmt;

use thiserror::Error;

/// A field of the request, or of an object in it, does not allow an answer. Karmada shows the text in an event on the
/// object, so it names the field and what is wrong with it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {problem}")]
pub struct InterpretError {
    /// Path of the field at fault.
    pub field: String,
    /// What is wrong with it, and what would be right.
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
