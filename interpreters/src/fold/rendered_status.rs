//! The status that the fold writes.

use std::collections::BTreeMap;

use super::condition::ConditionView;
use super::entry::CellEntry;
use super::status::{Counters, Generations, OtherFields, StatusView};
use crate::raw::same;

/// The status that the fold writes.
pub(super) struct RenderedStatus<'f, 'a> {
    pub(super) cells: Vec<CellEntry<'f, 'a>>,
    pub(super) conditions: Vec<ConditionView<'a>>,
    pub(super) counters: Counters,
    pub(super) observed_generation: Option<i64>,
    /// Fields that the fold does not know.
    pub(super) others: Option<&'f OtherFields<'a>>,
    /// The last condition in `status.conditions`.
    pub(super) cells_reporting: Option<ConditionView<'a>>,
    /// `status.reportingCell`.
    pub(super) reporting_cell: Option<&'f str>,
}

/// The value of one field of the written status.
enum StatusField<'f, 'a> {
    Number(i64),
    Conditions(Vec<ConditionView<'a>>),
    Cells(Vec<CellEntry<'f, 'a>>),
    Text(&'f str),
    Other(&'a str),
}

impl<'f, 'a> RenderedStatus<'f, 'a> {
    /// Appends the status as JSON.
    pub(super) fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.push(b'{');
        for (index, (name, field)) in self.fields().into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, name)?;
            out.push(b':');
            match field {
                StatusField::Number(number) => serde_json::to_writer(&mut *out, &number)?,
                StatusField::Conditions(conditions) => {
                    serde_json::to_writer(&mut *out, &conditions)?;
                }
                StatusField::Cells(cells) => write_cells(&cells, out)?,
                StatusField::Text(text) => serde_json::to_writer(&mut *out, text)?,
                StatusField::Other(text) => out.extend_from_slice(text.as_bytes()),
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// Returns the fields by name, without empty fields.
    fn fields(self) -> BTreeMap<&'f str, StatusField<'f, 'a>> {
        let counters = self.counters;
        let mut fields: BTreeMap<&str, StatusField<'_, 'a>> = BTreeMap::new();
        for (name, text) in self.others.into_iter().flatten() {
            fields.insert(name, StatusField::Other(text));
        }
        fields.extend(
            [
                ("currentReplicas", counters.current_replicas),
                ("desiredReplicas", counters.desired_replicas),
                ("readyReplicas", counters.ready_replicas),
                ("replicas", counters.replicas),
            ]
            .map(|(name, number)| (name, StatusField::Number(number.into()))),
        );
        if let Some(number) = self.observed_generation {
            fields.insert("observedGeneration", StatusField::Number(number));
        }
        if let Some(name) = self.reporting_cell {
            fields.insert("reportingCell", StatusField::Text(name));
        }
        if !self.cells.is_empty() {
            fields.insert("cells", StatusField::Cells(self.cells));
        }
        let conditions: Vec<_> = self
            .conditions
            .into_iter()
            .chain(self.cells_reporting)
            .collect();
        if !conditions.is_empty() {
            fields.insert("conditions", StatusField::Conditions(conditions));
        }
        fields
    }

    /// Returns whether the former status is already the same as this status.
    pub(super) fn equals(&self, former: &StatusView<'_>) -> bool {
        let no_others = BTreeMap::new();
        let others = self.others.unwrap_or(&no_others);
        let same_others = others.len() == former.others.len()
            && others
                .iter()
                .zip(&former.others)
                .all(|((name, one), (former_name, other))| name == former_name && same(one, other));
        let Generations {
            observed_generation,
            ..
        } = former.generations;
        // The fields that `InterpretStatus` adds are never part of the written status.
        let without_added = Generations {
            observed_generation,
            ..Generations::default()
        };
        // The cheap comparisons are first.
        self.counters == former.counters
            && self.observed_generation == observed_generation
            && former.generations == without_added
            && self.reporting_cell == former.reporting_cell.as_deref()
            && self.conditions == former.conditions
            && self.cells_reporting.as_ref() == former.cells_reporting.as_deref()
            && self.cells.len() == former.cells.len()
            && self
                .cells
                .iter()
                .zip(&former.cells)
                .all(|(cell, former)| cell.equals(former))
            && same_others
    }
}

fn write_cells(cells: &[CellEntry<'_, '_>], out: &mut Vec<u8>) -> serde_json::Result<()> {
    out.reserve(cells.iter().map(CellEntry::max_size).sum());
    out.push(b'[');
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        cell.write(out)?;
    }
    out.push(b']');
    Ok(())
}
