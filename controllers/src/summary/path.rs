//! The path of a column: a subset of JSONPath (RFC 9535) that finds single values.
//!
//! The subset has names, indexes and filters that compare fields with literals. It has no descendants (`..`), no
//! functions and no references to the root in a filter. So the evaluation visits each value of the document at most
//! once for each segment, and neither parser nor evaluation is recursive.

mod parser;
mod segment;

use segment::{Segment, Step};
use serde_json::Value;

use super::work::Work;

/// The path of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// A sentence that names the position and what is expected there.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let segments = parser::parse(text)?;
        Ok(Self { segments })
    }

    /// Returns the field of the document that the path begins with.
    pub(super) fn root(&self) -> Option<&str> {
        match self.segments.first() {
            Some(Segment::Step(Step::Name(name))) => Some(name),
            _ => None,
        }
    }

    /// Returns the value at the path, if there is one.
    ///
    /// # Errors
    ///
    /// A sentence if there are several.
    pub(super) fn find<'v>(
        &self,
        document: &'v Value,
        work: &mut Work,
    ) -> Result<Option<&'v Value>, String> {
        let mut found = vec![document];
        for segment in &self.segments {
            found = segment.of(found, work);
        }
        match found.as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            several => Err(format!("the path finds {} values", several.len())),
        }
    }
}

#[cfg(test)]
mod tests;
