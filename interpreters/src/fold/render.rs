//! From the fold to the status that is written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::available::rest_on_reachable;
use super::condition::Condition;
use super::entry::CellEntry;
use super::join::{find, join, sum};
use super::known::{Assigned, Known, Said, are_of, is_current, shares};
use super::report::{CellMemory, Counters, Generations, Report};
use super::{StatusFold, Template};
use crate::raw::same;

/// The status that is written.
pub(super) struct Status<'f, 'a> {
    pub(super) cells: Vec<CellEntry<'f, 'a>>,
    pub(super) conditions: Vec<Condition<'a>>,
    pub(super) counters: Counters,
    pub(super) observed_generation: Option<i64>,
    /// Fields that the fold does not know.
    pub(super) others: Option<&'f BTreeMap<Cow<'a, str>, &'a str>>,
    /// The fold's own condition, which stands last.
    pub(super) cells_reporting: Option<Condition<'a>>,
}

impl<'a> StatusFold<'a> {
    /// The status of `template` as JSON, its fields in alphabetical order. `None` when no cell is known: then the status
    /// is left as it is. `now` is the time of a condition that begins with this call; what a [mark](Self::mark) begins has
    /// the time of the mark.
    ///
    /// Nothing but items, and the status as it was rendered from them, give that status again, byte by byte.
    pub fn render(&self, template: &Template<'a>, now: Timestamp) -> Option<String> {
        let former = template.status.and_then(Report::parse);
        let mut text = Vec::new();
        self.with_status(template, former.as_ref(), now, |status| {
            status.write(&mut text)
        })?
        .ok()?;
        String::from_utf8(text).ok()
    }

    /// Appends the status as [`render`](Self::render) has it, if it says anything else than `former`, which is that of
    /// `template`. Whether it does, is returned.
    pub(crate) fn write_change(
        &self,
        template: &Template<'a>,
        former: Option<&Report<'a>>,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> bool {
        let written = self.with_status(template, former, now, |status| match former {
            Some(former) if status.says_the_same_as(former) => false,
            _ => status.write(out).is_ok(),
        });
        written.unwrap_or(false)
    }

    /// Hands the status to `then`.
    fn with_status<R>(
        &self,
        template: &Template<'a>,
        former: Option<&Report<'a>>,
        now: Timestamp,
        then: impl FnOnce(Status<'_, 'a>) -> R,
    ) -> Option<R> {
        let nothing = Report::default();
        let former = former.unwrap_or(&nothing);
        let memory = Memory::of(former);
        let known = self.known(former, &memory);
        let first = known.first()?;

        let total = template
            .replicas
            .or(template.min_replicas)
            .map(|total| total.max(0));
        let shares = shares(&known, template)
            .zip(total)
            .filter(|(shares, total)| are_of(shares, *total, &former.cells));
        let current = shares.is_some() && known.iter().all(|cell| is_current(cell, template));
        let translate = |carried: bool, up_to_date: bool, former: Option<i64>| match carried {
            true if up_to_date => template.generation,
            true => former,
            false => None,
        };
        let carried = known.iter().any(Known::carries_observed_generation);
        let observed_generation =
            translate(carried, current, former.generations.observed_generation);

        let formers = &former.conditions;
        let single = known.len() == 1;
        let mut conditions = if single {
            first.conditions.clone().into_owned()
        } else {
            join(&known, formers)
        };
        for (index, condition) in conditions.iter_mut().enumerate() {
            // The CRD lets a type stand there twice: then its place tells which of them it is.
            let former = formers
                .get(index)
                .filter(|former| former.type_ == condition.type_)
                .or_else(|| find(formers, &condition.type_));
            condition.observed_generation = translate(
                condition.observed_generation.is_some(),
                current && known.iter().all(|cell| cell.judged(&condition.type_)),
                former.and_then(|former| former.observed_generation),
            );
        }

        let cells_reporting = self.cells_reporting(former, template.shown, now);
        if let Some(reporting) = &cells_reporting {
            let (marks, shown) = (&self.marks, template.shown);
            rest_on_reachable(
                &mut conditions,
                &known,
                marks,
                formers,
                shown,
                &reporting.message,
            );
        }

        // The shares are in the order of the cells.
        let assigned = |index: usize, cell: &Known<'_, '_>| match &shares {
            Some((shares, total)) if current => Assigned {
                assigned_replicas: shares.get(index).map(|(_, share)| *share),
                template_replicas: Some(*total),
            },
            _ => cell
                .name
                .and_then(|name| memory.of_cell(name))
                .map(CellMemory::assigned)
                .unwrap_or_default(),
        };
        // A single cell that reports is remembered by the status itself.
        let cells = match single && matches!(first.said, Said::Now(_)) {
            true => Vec::new(),
            false => known
                .iter()
                .enumerate()
                .filter_map(|(index, cell)| CellEntry::of(cell, assigned(index, cell)))
                .collect(),
        };
        let status = Status {
            cells,
            conditions,
            counters: sum(&known),
            observed_generation,
            others: first.whole.filter(|_| single).map(|whole| &whole.others),
            cells_reporting,
        };
        Some(then(status))
    }

    /// Each cell with its report, or with what the former status remembers of it.
    fn known<'f>(&'f self, former: &'f Report<'a>, memory: &Memory<'f, 'a>) -> Vec<Known<'f, 'a>> {
        let mut cells: Vec<_> = self
            .cells
            .iter()
            .map(|(name, cell)| match &cell.report {
                Some(report) => Known::reported(name, report, cell.silence.is_none()),
                None => Known::remembered(name, memory.of_cell(name)),
            })
            .collect();
        if self.cells.iter().any(|(_, cell)| cell.report.is_some()) {
            return cells;
        }
        // The status of a single cell that reported does not name it: that status itself is the memory.
        let unnamed = former.cells.is_empty()
            && (former.counters != Counters::default() || !former.conditions.is_empty());
        match cells.as_mut_slice() {
            [cell] if unnamed => *cell = Known::former(cell.name, former),
            [cell] => cell.whole = Some(former),
            [_, _, ..] if unnamed => cells = vec![Known::former(None, former)],
            _ => {}
        }
        cells
    }
}

impl<'f, 'a> Status<'f, 'a> {
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
                Field::Number(number) => serde_json::to_writer(&mut *out, &number)?,
                Field::Conditions(conditions) => serde_json::to_writer(&mut *out, &conditions)?,
                Field::Cells(cells) => write_cells(&cells, out)?,
                Field::Other(text) => out.extend_from_slice(text.as_bytes()),
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// The fields by name; those that say nothing are left out.
    fn fields(self) -> BTreeMap<&'f str, Field<'f, 'a>> {
        let counters = self.counters;
        let mut fields: BTreeMap<&str, Field<'_, 'a>> = BTreeMap::new();
        for (name, text) in self.others.into_iter().flatten() {
            fields.insert(name, Field::Other(text));
        }
        fields.extend(
            [
                ("currentReplicas", counters.current_replicas),
                ("desiredReplicas", counters.desired_replicas),
                ("readyReplicas", counters.ready_replicas),
                ("replicas", counters.replicas),
            ]
            .map(|(name, number)| (name, Field::Number(number.into()))),
        );
        if let Some(number) = self.observed_generation {
            fields.insert("observedGeneration", Field::Number(number));
        }
        if !self.cells.is_empty() {
            fields.insert("cells", Field::Cells(self.cells));
        }
        let conditions: Vec<_> = self
            .conditions
            .into_iter()
            .chain(self.cells_reporting)
            .collect();
        if !conditions.is_empty() {
            fields.insert("conditions", Field::Conditions(conditions));
        }
        fields
    }

    fn says_the_same_as(&self, former: &Report<'_>) -> bool {
        let no_others = BTreeMap::new();
        let others = self.others.unwrap_or(&no_others);
        let same_others = others.len() == former.others.len()
            && others
                .iter()
                .zip(&former.others)
                .all(|((name, one), (of, other))| name == of && same(one, other));
        let Generations {
            observed_generation,
            ..
        } = former.generations;
        let alone = Generations {
            observed_generation,
            ..Generations::default()
        };
        // The order of the fields costs least first.
        self.counters == former.counters
            && self.observed_generation == observed_generation
            && former.generations == alone
            && self.conditions == former.conditions
            && self.cells_reporting.as_ref() == former.cells_reporting.as_deref()
            && self.cells.len() == former.cells.len()
            && self
                .cells
                .iter()
                .zip(&former.cells)
                .all(|(cell, former)| cell.says_the_same_as(former))
            && same_others
    }
}

/// A value of the written status.
enum Field<'f, 'a> {
    Number(i64),
    Conditions(Vec<Condition<'a>>),
    Cells(Vec<CellEntry<'f, 'a>>),
    Other(&'a str),
}

fn write_cells(cells: &[CellEntry<'_, '_>], out: &mut Vec<u8>) -> serde_json::Result<()> {
    out.reserve(cells.iter().map(CellEntry::size).sum());
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

/// What the former status remembers of each cell, sorted by name.
struct Memory<'f, 'a>(Vec<&'f CellMemory<'a>>);

impl<'f, 'a> Memory<'f, 'a> {
    fn of(former: &'f Report<'a>) -> Self {
        let mut cells: Vec<_> = former.cells.iter().collect();
        cells.sort_by(|one, other| one.name.cmp(&other.name));
        Self(cells)
    }

    fn of_cell(&self, name: &str) -> Option<&'f CellMemory<'a>> {
        let index = self
            .0
            .binary_search_by(|cell| cell.name.as_ref().cmp(name))
            .ok()?;
        self.0.get(index).copied()
    }
}
