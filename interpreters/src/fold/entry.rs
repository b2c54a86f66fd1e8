//! Entries of `status.cells` in the written status.

use std::io::Write;

use serde::Serialize;

use super::cell_view::{CellView, Source};
use super::shares::AssignedShare;
use super::status::RememberedCell;
use crate::fields::{put, write_value};

/// The entry of one cell.
#[derive(Clone, Copy)]
pub(super) struct CellEntry<'k, 'a> {
    cell: &'k CellView<'k, 'a>,
    assigned: AssignedShare,
}

impl<'k, 'a> CellEntry<'k, 'a> {
    /// Returns the entry of a cell. Returns `None` if the cell has no name or has never reported.
    pub(super) fn of(cell: &'k CellView<'k, 'a>, assigned: AssignedShare) -> Option<Self> {
        let is_known = cell.name.is_some() && !matches!(cell.source, Source::Nothing);
        is_known.then_some(Self { cell, assigned })
    }

    fn name(&self) -> &'k str {
        self.cell.name.unwrap_or_default()
    }

    /// Returns whether the stored entry is already the same as this entry.
    pub(super) fn equals(&self, remembered: &RememberedCell<'_>) -> bool {
        let same_conditions = match (self.cell.conditions_text(), remembered.conditions.text.0) {
            (Some(one), Some(other)) => one == other,
            _ => self.cell.conditions() == remembered.conditions.list,
        };
        same_conditions
            && self.name() == remembered.name
            && self.cell.counters() == remembered.counters()
            && self.cell.resource_template_generation() == remembered.resource_template_generation
            && self.assigned == AssignedShare::of(remembered)
    }

    /// Returns whether [`max_size`](Self::max_size) is the maximum size.
    pub(super) fn has_known_size(&self) -> bool {
        self.cell.conditions_text().is_some() || self.cell.conditions().is_empty()
    }

    /// Returns the maximum size of the entry, in bytes. If the text of the conditions is unknown, the conditions are
    /// not included.
    pub(super) fn max_size(&self) -> usize {
        /// Size of an entry without a name, numbers and optional fields, in bytes, with a comma.
        const REQUIRED: usize =
            r#"{"currentReplicas":,"desiredReplicas":,"name":"","readyReplicas":,"replicas":},"#
                .len();
        /// Size of all optional fields without their values, in bytes.
        const OPTIONAL: usize =
            r#""assignedReplicas":,"conditions":,"resourceTemplateGeneration":,"templateReplicas":,"updatedReplicas":,"#
                .len();
        let counters = self.cell.counters();
        let numbers = [
            counters.current_replicas,
            counters.desired_replicas,
            counters.ready_replicas,
            counters.replicas,
        ];
        let digits = numbers.map(|number| match number {
            0..=9 => 1,
            _ => 11,
        });
        let has_optional = self.assigned.assigned_replicas.is_some()
            || self.assigned.template_replicas.is_some()
            || self.cell.resource_template_generation().is_some()
            || self.cell.conditions_text().is_some()
            || counters.updated_replicas.is_some();
        let optional = match has_optional {
            true => OPTIONAL + 11 + 11 + 11 + 20 + self.cell.conditions_text().map_or(0, str::len),
            false => 0,
        };
        REQUIRED + self.name().len() + digits.iter().sum::<usize>() + optional
    }

    /// Appends the entry as JSON. The fields are in alphabetical order.
    pub(super) fn write(&self, out: &mut impl Write) -> serde_json::Result<()> {
        let counters = self.cell.counters();
        put(out, b"{")?;
        if let Some(replicas) = self.assigned.assigned_replicas {
            field(out, r#""assignedReplicas":"#, &replicas)?;
            put(out, b",")?;
        }
        match self.cell.conditions_text() {
            Some(text) => {
                put(out, br#""conditions":"#)?;
                put(out, text.as_bytes())?;
                put(out, b",")?;
            }
            None if self.cell.conditions().is_empty() => {}
            None => {
                field(out, r#""conditions":"#, self.cell.conditions())?;
                put(out, b",")?;
            }
        }
        field(out, r#""currentReplicas":"#, &counters.current_replicas)?;
        field(out, r#","desiredReplicas":"#, &counters.desired_replicas)?;
        field(out, r#","name":"#, self.name())?;
        field(out, r#","readyReplicas":"#, &counters.ready_replicas)?;
        field(out, r#","replicas":"#, &counters.replicas)?;
        if let Some(generation) = self.cell.resource_template_generation() {
            field(out, r#","resourceTemplateGeneration":"#, &generation)?;
        }
        if let Some(replicas) = self.assigned.template_replicas {
            field(out, r#","templateReplicas":"#, &replicas)?;
        }
        if let Some(replicas) = counters.updated_replicas {
            field(out, r#","updatedReplicas":"#, &replicas)?;
        }
        put(out, b"}")
    }
}

/// Appends a field. `name` has quotes and a colon.
fn field(
    out: &mut impl Write,
    name: &str,
    value: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    put(out, name.as_bytes())?;
    write_value(out, value)
}
