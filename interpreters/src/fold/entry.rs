//! Entries of `status.cells` in the written status.

use serde::Serialize;

use super::cell_view::{CellView, Source};
use super::shares::AssignedShare;
use super::status::RememberedCell;

/// The entry of one cell.
#[derive(Clone, Copy)]
pub(super) struct CellEntry<'k, 'a> {
    name: &'k str,
    cell: &'k CellView<'k, 'a>,
    assigned: AssignedShare,
}

impl<'k, 'a> CellEntry<'k, 'a> {
    /// Returns the entry of a cell. Returns `None` if the cell has no name or has never reported.
    pub(super) fn of(cell: &'k CellView<'k, 'a>, assigned: AssignedShare) -> Option<Self> {
        let name = cell
            .name
            .filter(|_| !matches!(cell.source, Source::Nothing))?;
        Some(Self {
            name,
            cell,
            assigned,
        })
    }

    /// Returns whether the stored entry is already the same as this entry.
    pub(super) fn equals(&self, remembered: &RememberedCell<'_>) -> bool {
        let same_conditions = match (self.cell.conditions_text, remembered.conditions.text.0) {
            (Some(one), Some(other)) => one == other,
            _ => self.cell.conditions == remembered.conditions.list,
        };
        same_conditions
            && self.name == remembered.name
            && self.cell.counters == remembered.counters()
            && self.cell.resource_template_generation == remembered.resource_template_generation
            && self.assigned == AssignedShare::of(remembered)
    }

    /// Returns the maximum size of the entry, in bytes. If the text of the conditions is unknown, the conditions are
    /// not included.
    pub(super) fn max_size(&self) -> usize {
        /// Size of all field names and of eight numbers with at most 20 digits each, in bytes.
        const NAMES_AND_NUMBERS: usize = 256;
        NAMES_AND_NUMBERS + self.name.len() + self.cell.conditions_text.map_or(0, str::len)
    }

    /// Appends the entry as JSON. The fields are in alphabetical order.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let counters = self.cell.counters;
        out.push(b'{');
        if let Some(replicas) = self.assigned.assigned_replicas {
            put(out, r#""assignedReplicas":"#, replicas)?;
            out.push(b',');
        }
        match self.cell.conditions_text {
            Some(text) => {
                out.extend_from_slice(br#""conditions":"#);
                out.extend_from_slice(text.as_bytes());
                out.push(b',');
            }
            None if self.cell.conditions.is_empty() => {}
            None => {
                put(out, r#""conditions":"#, self.cell.conditions)?;
                out.push(b',');
            }
        }
        put(out, r#""currentReplicas":"#, counters.current_replicas)?;
        put(out, r#","desiredReplicas":"#, counters.desired_replicas)?;
        put(out, r#","name":"#, self.name)?;
        put(out, r#","readyReplicas":"#, counters.ready_replicas)?;
        put(out, r#","replicas":"#, counters.replicas)?;
        if let Some(generation) = self.cell.resource_template_generation {
            put(out, r#","resourceTemplateGeneration":"#, generation)?;
        }
        if let Some(replicas) = self.assigned.template_replicas {
            put(out, r#","templateReplicas":"#, replicas)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Appends a field.
fn put(out: &mut Vec<u8>, name: &str, value: impl Serialize) -> serde_json::Result<()> {
    out.extend_from_slice(name.as_bytes());
    serde_json::to_writer(out, &value)
}
