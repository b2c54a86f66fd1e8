//! Warnings about the errors that an update may keep. API clients such as kubectl show them to the requester.

use super::error::FieldError;
use super::path::FieldPath;
use crate::bounded::bounded;

/// Maximum number of warnings about single errors. API servers drop warnings beyond 4096 bytes in total.
const WARNINGS_MAX: usize = 8;

/// The errors that an object had before an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warnings {
    listed: Vec<String>,
    /// The number of errors that are not in `listed`.
    more: usize,
}

impl Warnings {
    pub(super) fn add(&mut self, path: &FieldPath<'_>, error: &FieldError<'_>) {
        if self.listed.len() == WARNINGS_MAX {
            self.more += 1;
            return;
        }
        let text = format!("not valid, but was so before: {path}: {error}");
        self.listed.push(bounded(&text).into_owned());
    }

    /// Returns the texts of the warnings.
    pub(crate) fn into_texts(self) -> Vec<String> {
        let Self { mut listed, more } = self;
        if more > 0 {
            listed.push(format!("and {more} more errors that were there before"));
        }
        listed
    }
}
