//! The work of an evaluation. It is counted in units instead of time, so that the same query on the same objects always
//! has the same result.

use api::reasons::workload_summary as reason;
use api::workload_summary::{Scalar, SummaryRow};
use serde_json::Value;

/// Most units of work of one evaluation. A unit is a value of a document, a value that a path visits, a comparison, or
/// 64 bytes of text.
pub(crate) const WORK_MAX: usize = 5_000_000;

/// Most bytes of text in the rows of one evaluation: their values, messages and errors.
pub(crate) const ROWS_TEXT_MAX: usize = 16 << 20;

/// Bytes of text that are one unit of work.
const BYTES_PER_UNIT: usize = 64;

/// Why a query has no result.
#[derive(Debug, PartialEq)]
pub(super) struct NoResult {
    /// A reason of `Current`.
    pub(super) reason: &'static str,
    /// The message of this condition.
    pub(super) message: String,
}

/// The work that an evaluation has done.
#[derive(Debug, Default)]
pub(super) struct Work {
    units: usize,
    /// Bytes of text in the rows.
    text: usize,
}

impl Work {
    /// Adds units of work.
    pub(super) fn add(&mut self, units: usize) {
        self.units = self.units.saturating_add(units);
    }

    /// Adds the work of reading or copying a text of this length.
    pub(super) fn add_text(&mut self, bytes: usize) {
        self.add(1 + bytes / BYTES_PER_UNIT);
    }

    /// Adds the text that a row keeps until the end of the evaluation.
    pub(super) fn add_row(&mut self, row: &SummaryRow) {
        let values = row.values.values().map(|value| match value {
            Scalar::Text(text) => text.len(),
            Scalar::Bool(_) | Scalar::Integer(_) => 0,
        });
        let errors = row.errors.values().chain(&row.message).map(String::len);
        let bytes: usize = values.chain(errors).sum();
        self.text = self.text.saturating_add(bytes);
    }

    /// Adds the work of making a document.
    pub(super) fn add_document(&mut self, document: &Value) {
        let mut values = vec![document];
        while let Some(value) = values.pop() {
            match value {
                Value::String(text) => self.add_text(text.len()),
                Value::Array(items) => {
                    self.add(1);
                    values.extend(items);
                }
                Value::Object(fields) => {
                    let names = fields.keys().map(String::len);
                    self.add_text(names.sum());
                    values.extend(fields.values());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => self.add(1),
            }
        }
    }

    /// Checks that one evaluation may go on.
    ///
    /// # Errors
    ///
    /// [`NoResult`] if it has done too much work, or if its rows have too much text.
    pub(super) fn check(&self) -> Result<(), NoResult> {
        let needs = if self.units > WORK_MAX {
            format!("needs more than {WORK_MAX} units of work")
        } else if self.text > ROWS_TEXT_MAX {
            format!("has rows with more than {ROWS_TEXT_MAX} bytes of text")
        } else {
            return Ok(());
        };
        Err(NoResult {
            reason: reason::TOO_EXPENSIVE,
            message: format!(
                "the query {needs}: select fewer Workloads, or use fewer or simpler columns"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_counts_its_values_and_its_text() {
        let units = |document: &Value| {
            let mut work = Work::default();
            work.add_document(document);
            work.units
        };
        assert_eq!(units(&json!(null)), 1);
        assert_eq!(units(&json!({"a": [1, true], "b": "c"})), 5);
        assert_eq!(units(&json!("x".repeat(640))), 11);
        assert_eq!(units(&json!({"x".repeat(640): 1})), 12);
    }

    #[test]
    fn too_much_work_is_refused() {
        let mut work = Work::default();
        work.add(WORK_MAX);
        assert_eq!(work.check(), Ok(()));
        work.add(usize::MAX);
        assert_eq!(work.check().unwrap_err().reason, "TooExpensive");
    }
}
