//! `InterpretStatus`: the whole status of a cell's object, with additional fields.

use crate::error::InterpretError;
use crate::fields::{Fields, merged, write_object, write_value};

/// The fields that are added to a status (docs/concepts/status.md#input).
pub(super) struct AddedFields {
    pub(super) assigned_min_replicas: Option<i64>,
    pub(super) assigned_replicas: Option<i64>,
    pub(super) cell_rules_stamp: Option<i64>,
    pub(super) generation: Option<i64>,
    pub(super) resource_template_generation: Option<i64>,
}

impl AddedFields {
    /// Returns the fields, sorted by name.
    fn sorted(&self) -> [(&'static str, Option<i64>); 5] {
        [
            ("assignedMinReplicas", self.assigned_min_replicas),
            ("assignedReplicas", self.assigned_replicas),
            ("cellRulesStamp", self.cell_rules_stamp),
            ("generation", self.generation),
            (
                "resourceTemplateGeneration",
                self.resource_template_generation,
            ),
        ]
    }
}

/// Returns the status with the added fields, sorted by name. If the status has such a field already, the field is
/// replaced or removed. An empty status stays empty.
pub(super) fn write(status: &str, added: &AddedFields) -> Result<String, InterpretError> {
    /// Size of the added fields, in bytes, rounded up.
    const ADDED: usize = 256;
    let invalid = |error| InterpretError::new("status", error);
    let mut fields = Fields::parse(status).map_err(invalid)?;
    if fields.is_empty() {
        return Ok("{}".to_owned());
    }
    let added = added.sorted();
    fields.retain(|field| {
        let name = field.name.text();
        added.iter().all(|(added, _)| name != *added)
    });
    let added = added.into_iter();
    let added = added.filter_map(|(name, number)| Some((name, number?)));
    let size: usize = fields.iter().map(|field| field.max_size() + 1).sum();
    let mut out = Vec::with_capacity(ADDED + size);
    write_object(merged(fields.iter(), added), &mut out, |number, out| {
        write_value(out, &number)
    })
    .map_err(invalid)?;
    String::from_utf8(out).map_err(|error| InterpretError::new("status", error))
}
