//! The status that the fold writes.

use std::io::Write;

use super::condition::ConditionView;
use super::entry::CellEntry;
use super::status::{Counters, Generations, StatusView};
use crate::fields::{ByteCounter, Field, Fields, merged, put, write_object, write_value};
use crate::raw::same;

/// The status that the fold writes.
pub(super) struct RenderedStatus<'f, 'a> {
    pub(super) cells: Vec<CellEntry<'f, 'a>>,
    pub(super) conditions: Vec<ConditionView<'a>>,
    pub(super) counters: Counters,
    pub(super) observed_generation: Option<i64>,
    /// Fields that the fold does not know.
    pub(super) others: Option<&'f Fields<'a>>,
    /// The last condition in `status.conditions`.
    pub(super) cells_reporting: Option<ConditionView<'a>>,
    /// `status.reportingCell`.
    pub(super) reporting_cell: Option<&'f str>,
    /// `status.selector`.
    pub(super) selector: Option<&'f str>,
    /// `status.suspended`.
    pub(super) suspended: Option<bool>,
}

/// The value of one field of the written status.
enum StatusField<'s, 'f, 'a> {
    Number(i64),
    Conditions(&'s [ConditionView<'a>], Option<&'s ConditionView<'a>>),
    Cells(&'s [CellEntry<'f, 'a>]),
    Text(&'f str),
    Flag(bool),
}

impl<'f, 'a> RenderedStatus<'f, 'a> {
    /// Appends the status as JSON.
    pub(super) fn write(self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        /// Number of conditions and other fields of a usual status, rounded up.
        const USUAL_PARTS: usize = 16;
        /// Size of the counters, of the generation and of `suspended`, in bytes, rounded up.
        const COUNTERS: usize = 224;
        /// Room for the end of the patch, in bytes.
        const END: usize = 16;
        let others = self.others.map_or(0, Fields::len);
        let is_large = self.conditions.len() + others > USUAL_PARTS
            || self.cells.iter().any(|cell| !cell.has_known_size());
        if is_large {
            // Finds the exact size first. A vector that grows needs up to three times the size.
            let mut size = ByteCounter::default();
            self.write_to(&mut size)?;
            out.reserve_exact(size.0 + END);
        } else {
            let conditions = self.conditions.iter().chain(&self.cells_reporting);
            let texts = self.reporting_cell.into_iter().chain(self.selector);
            let size = COUNTERS
                + texts.map(str::len).sum::<usize>()
                + conditions.map(ConditionView::size).sum::<usize>()
                + self.cells.iter().map(CellEntry::max_size).sum::<usize>();
            out.reserve(size + END);
        }
        self.write_to(out)
    }

    fn write_to(&self, out: &mut impl Write) -> serde_json::Result<()> {
        let others = self.others.into_iter().flat_map(Fields::iter);
        write_object(
            merged(others, self.fields()),
            out,
            |field, out| match field {
                StatusField::Number(number) => write_value(out, &number),
                StatusField::Conditions(conditions, last) => {
                    let all = conditions.iter().chain(last);
                    write_list(out, all, |condition, out| write_value(out, condition))
                }
                StatusField::Cells(cells) => write_list(out, cells, CellEntry::write),
                StatusField::Text(text) => write_value(out, text),
                StatusField::Flag(flag) => write_value(out, &flag),
            },
        )
    }

    /// Returns the fields that the fold knows, sorted by name, without empty fields.
    fn fields(&self) -> impl Iterator<Item = (&'static str, StatusField<'_, 'f, 'a>)> {
        let number = |number: i32| Some(StatusField::Number(number.into()));
        let counters = self.counters;
        let cells_reporting = self.cells_reporting.as_ref();
        let has_conditions = !self.conditions.is_empty() || cells_reporting.is_some();
        let conditions =
            has_conditions.then(|| StatusField::Conditions(&self.conditions, cells_reporting));
        let cells = (!self.cells.is_empty()).then(|| StatusField::Cells(&self.cells));
        let fields = [
            ("cells", cells),
            ("conditions", conditions),
            ("currentReplicas", number(counters.current_replicas)),
            ("desiredReplicas", number(counters.desired_replicas)),
            (
                "observedGeneration",
                self.observed_generation.map(StatusField::Number),
            ),
            ("readyReplicas", number(counters.ready_replicas)),
            ("replicas", number(counters.replicas)),
            ("reportingCell", self.reporting_cell.map(StatusField::Text)),
            ("selector", self.selector.map(StatusField::Text)),
            ("suspended", self.suspended.map(StatusField::Flag)),
            (
                "updatedReplicas",
                counters.updated_replicas.and_then(number),
            ),
        ];
        let fields = fields.into_iter();
        fields.filter_map(|(name, field)| Some((name, field?)))
    }

    /// Returns whether the former status is already the same as this status.
    pub(super) fn equals(&self, former: &StatusView<'_>) -> bool {
        let no_others = Fields::default();
        let others = self.others.unwrap_or(&no_others);
        let same_field = |one: Field<'_>, other: Field<'_>| {
            one.name == other.name && same(one.value, other.value)
        };
        let same_others = || {
            others.len() == former.others.len()
                && others
                    .iter()
                    .zip(former.others.iter())
                    .all(|(one, other)| same_field(one, other))
        };
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
        self.counters == former.counters()
            && self.observed_generation == observed_generation
            && former.generations == without_added
            && self.reporting_cell == former.reporting_cell()
            && self.selector == former.selector()
            && self.suspended == former.suspended()
            && self.conditions == former.conditions
            && self.cells_reporting.as_ref() == former.cells_reporting()
            && self.cells.len() == former.cells().len()
            && self
                .cells
                .iter()
                .zip(former.cells())
                .all(|(cell, former)| cell.equals(former))
            && same_others()
    }
}

/// Writes a JSON list. `write` writes each element.
fn write_list<T, W: Write>(
    out: &mut W,
    list: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut W) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    put(out, b"[")?;
    for (index, element) in list.into_iter().enumerate() {
        if index > 0 {
            put(out, b",")?;
        }
        write(element, out)?;
    }
    put(out, b"]")
}
