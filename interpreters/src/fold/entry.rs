//! An entry of `status.cells` that is written.

use serde::Serialize;

use super::known::{Assigned, Known, Said};
use super::report::CellMemory;

/// What the status says of one cell.
#[derive(Clone, Copy)]
pub(super) struct CellEntry<'k, 'a> {
    pub(super) name: &'k str,
    pub(super) known: &'k Known<'k, 'a>,
    pub(super) assigned: Assigned,
}

impl<'k, 'a> CellEntry<'k, 'a> {
    /// The entry of a cell; one that never said anything has none.
    pub(super) fn of(known: &'k Known<'k, 'a>, assigned: Assigned) -> Option<Self> {
        let name = known.name.filter(|_| !matches!(known.said, Said::Never))?;
        Some(Self {
            name,
            known,
            assigned,
        })
    }

    /// Whether the entry says what was read.
    pub(super) fn says_the_same_as(&self, read: &CellMemory<'_>) -> bool {
        let same_conditions = match (self.known.written, read.conditions.written()) {
            (Some(one), Some(other)) => one == other,
            _ => *self.known.conditions == *read.conditions.list(),
        };
        same_conditions
            && self.name == read.name
            && self.known.counters == read.counters()
            && self.known.resource_template_generation == read.resource_template_generation
            && self.assigned == read.assigned()
    }

    /// Bytes that the entry needs at most, if its conditions are copied.
    pub(super) fn size(&self) -> usize {
        const NAMES_AND_NUMBERS: usize = 256;
        NAMES_AND_NUMBERS + self.name.len() + self.known.written.map_or(0, str::len)
    }

    /// Appends the entry as JSON, its fields in alphabetical order.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let counters = self.known.counters;
        out.push(b'{');
        if let Some(replicas) = self.assigned.assigned_replicas {
            put(out, r#""assignedReplicas":"#, replicas)?;
            out.push(b',');
        }
        match self.known.written {
            Some(written) => {
                out.extend_from_slice(br#""conditions":"#);
                out.extend_from_slice(written.as_bytes());
                out.push(b',');
            }
            None if self.known.conditions.is_empty() => {}
            None => {
                put(out, r#""conditions":"#, &self.known.conditions)?;
                out.push(b',');
            }
        }
        put(out, r#""currentReplicas":"#, counters.current_replicas)?;
        put(out, r#","desiredReplicas":"#, counters.desired_replicas)?;
        put(out, r#","name":"#, self.name)?;
        put(out, r#","readyReplicas":"#, counters.ready_replicas)?;
        put(out, r#","replicas":"#, counters.replicas)?;
        if let Some(generation) = self.known.resource_template_generation {
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
