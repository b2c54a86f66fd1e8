//! What is known of one cell, and whether it has acted on what the hub wants.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Template;
use super::condition::Condition;
use super::report::{CellMemory, Counters, Report, saturated};

/// What is known of one cell: its report, or what it said before it fell silent.
pub(super) struct Known<'f, 'a> {
    /// `None` where it cannot be told whose it is.
    pub(super) name: Option<&'f str>,
    pub(super) counters: Counters,
    pub(super) conditions: Cow<'f, [Condition<'a>]>,
    /// How these are written, where it is known.
    pub(super) written: Option<&'a str>,
    pub(super) resource_template_generation: Option<i64>,
    /// The report, or the status without a name, that has the other fields.
    pub(super) whole: Option<&'f Report<'a>>,
    pub(super) said: Said<'f, 'a>,
}

/// The share of a cell, and of which total it is: as they were when all cells had their shares last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) assigned_replicas: Option<i32>,
    pub(super) template_replicas: Option<i32>,
}

/// Where [`Known`] comes from.
pub(super) enum Said<'f, 'a> {
    Now(&'f Report<'a>),
    Before,
    Never,
}

impl<'f, 'a> Known<'f, 'a> {
    pub(super) fn reported(name: &'f str, report: &'f Report<'a>, current: bool) -> Self {
        Self {
            name: Some(name),
            counters: report.counters,
            conditions: Cow::Borrowed(&report.conditions),
            written: report.written.0,
            resource_template_generation: report.generations.resource_template_generation,
            whole: Some(report),
            said: if current {
                Said::Now(report)
            } else {
                Said::Before
            },
        }
    }

    /// What a status says that does not name its cell.
    pub(super) fn former(name: Option<&'f str>, former: &'f Report<'a>) -> Self {
        Self {
            name,
            counters: former.counters,
            conditions: Cow::Borrowed(&former.conditions),
            written: former.written.0,
            resource_template_generation: None,
            whole: Some(former),
            said: Said::Before,
        }
    }

    pub(super) fn remembered(name: &'f str, memory: Option<&'f CellMemory<'a>>) -> Self {
        Self {
            name: Some(name),
            counters: memory.map(CellMemory::counters).unwrap_or_default(),
            conditions: memory
                .map(|cell| cell.conditions.list())
                .unwrap_or_default(),
            written: memory.and_then(|cell| cell.conditions.written()),
            resource_template_generation: memory.and_then(|cell| cell.resource_template_generation),
            whole: None,
            said: if memory.is_some() {
                Said::Before
            } else {
                Said::Never
            },
        }
    }

    pub(super) fn carries_observed_generation(&self) -> bool {
        match self.said {
            Said::Now(report) => report.generations.observed_generation.is_some(),
            Said::Before => true,
            Said::Never => false,
        }
    }

    /// Whether the cell judged this condition, where it has it, by the generation that it reports.
    pub(super) fn judged(&self, type_: &str) -> bool {
        let Said::Now(report) = self.said else {
            return false;
        };
        let condition = self
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_);
        condition
            .is_none_or(|condition| condition.observed_generation == report.generations.generation)
    }
}

impl CellMemory<'_> {
    pub(super) fn assigned(&self) -> Assigned {
        Assigned {
            assigned_replicas: self.assigned_replicas,
            template_replicas: self.template_replicas,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            current_replicas: self.current_replicas,
            desired_replicas: self.desired_replicas,
            ready_replicas: self.ready_replicas,
            replicas: self.replicas,
        }
    }
}

/// Whether the cell reports on the template's generation and has acted on what it has (karmada.md 4.3).
pub(super) fn is_current(cell: &Known<'_, '_>, template: &Template<'_>) -> bool {
    let Said::Now(report) = cell.said else {
        return false;
    };
    let generations = report.generations;
    generations.resource_template_generation.is_some()
        && generations.resource_template_generation == template.generation
        && generations.generation.is_some()
        && generations.generation == generations.observed_generation
}

/// The replicas that each cell says it was assigned, where all of them say it.
pub(super) fn shares<'k>(
    known: &'k [Known<'_, '_>],
    template: &Template<'_>,
) -> Option<Shares<'k>> {
    known
        .iter()
        .map(|cell| {
            let Said::Now(report) = cell.said else {
                return None;
            };
            let generations = report.generations;
            let share = share(
                template.replicas,
                generations.assigned_replicas,
                generations.assigned_min_replicas,
            );
            Some((cell.name?, saturated(share?.max(0))))
        })
        .collect()
}

/// What Karmada has assigned to a cell of the template's replicas, by the two fields that `InterpretStatus` adds for it:
/// where the template does not say its replicas, those of the cell may be an autoscaler's.
pub fn share(
    template_replicas: Option<i32>,
    assigned_replicas: Option<i64>,
    assigned_min_replicas: Option<i64>,
) -> Option<i64> {
    match template_replicas {
        Some(_) => assigned_replicas,
        None => assigned_min_replicas.or(assigned_replicas),
    }
}

/// Replicas by cell, sorted by name.
pub(super) type Shares<'k> = Vec<(&'k str, i32)>;

/// Whether these are the shares of this total: they sum to it, or each equals it. Karmada sends a new template out with
/// the shares of the former total first (karmada.md 12, 2), so the generation alone does not tell. Neither does a sum that
/// is right by chance: with a new total at least one share is new, and no cell keeps a share of nothing.
pub(super) fn are_of(shares: &Shares<'_>, total: i32, memory: &[CellMemory<'_>]) -> bool {
    let sum = shares
        .iter()
        .fold(0_i32, |sum, (_, share)| sum.saturating_add(*share));
    let adds_up = sum == total || shares.iter().all(|(_, share)| *share == total);
    let has_none = total > 0 && shares.iter().any(|(_, share)| *share == 0);
    let of_another_total = memory
        .iter()
        .any(|cell| cell.template_replicas.is_some_and(|former| former != total));
    let remembered = || {
        let cells = memory.iter();
        let shares = cells.filter_map(|cell| Some((cell.name.as_ref(), cell.assigned_replicas?)));
        shares.collect::<BTreeMap<_, _>>()
    };
    adds_up
        && !has_none
        && !(of_another_total && remembered().into_iter().eq(shares.iter().copied()))
}
