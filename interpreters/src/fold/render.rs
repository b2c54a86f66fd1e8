//! From the fold to the status that is written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::ConditionStatus;
use api::condition::MESSAGE_MAX;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::report::{CellMemory, Condition, Counters, Report};
use super::{Silence, StatusFold, Template};

const CELL_NOT_APPLIED: &str = "CellNotApplied";
const CELL_NOT_REPORTED: &str = "CellNotReported";

/// What is known of one cell: its report, or what it said before it fell silent.
struct Known<'f, 'a> {
    name: &'f str,
    counters: Counters,
    conditions: Vec<Condition<'a>>,
    resource_template_generation: Option<i64>,
    others: BTreeMap<Cow<'a, str>, &'a str>,
    said: Said<'f, 'a>,
}

/// Where [`Known`] comes from.
enum Said<'f, 'a> {
    Now(&'f Report<'a>),
    Before,
    Never,
}

/// A value of the written status.
#[derive(Serialize)]
#[serde(untagged)]
enum Field<'f, 'a> {
    Number(i64),
    Conditions(Vec<Condition<'a>>),
    Cells(Vec<CellMemory<'f>>),
    Other(&'a RawValue),
}

impl<'a> StatusFold<'a> {
    /// The status of `template` as JSON, its fields in alphabetical order. `None` when no cell is known: then the status
    /// is left as it is. `now` is the time of a condition that begins with this call.
    pub fn render(&self, template: &Template<'a>, now: Timestamp) -> Option<String> {
        let former = template.status.and_then(Report::parse).unwrap_or_default();
        let former_conditions = all_conditions(template.status);
        let known = self.known(&former);
        let first = known.first()?;

        let current =
            known.iter().all(|cell| is_current(cell, template)) && shares_add_up(&known, template);
        let translate = |carried: bool, up_to_date: bool, former: Option<i64>| match carried {
            true if up_to_date => template.generation,
            true => former,
            false => None,
        };
        let carried = known.iter().any(Known::carries_observed_generation);
        let observed_generation =
            translate(carried, current, former.generations.observed_generation);

        let single = known.len() == 1;
        let joined = if single {
            first.conditions.clone()
        } else {
            join(&known, &former_conditions)
        };
        let mut conditions: Vec<_> = joined
            .into_iter()
            .map(|mut condition| {
                let former = find(&former_conditions, &condition.type_);
                condition.observed_generation = translate(
                    condition.observed_generation.is_some(),
                    current && known.iter().all(|cell| cell.judged(&condition.type_)),
                    former.and_then(|former| former.observed_generation),
                );
                condition
            })
            .collect();
        conditions.extend(self.cells_reporting(&former_conditions, now));

        let counters = sum(&known);
        let mut fields: BTreeMap<&str, Field<'_, 'a>> = BTreeMap::new();
        if single {
            let others = first.others.iter().filter_map(|(name, text)| {
                Some((
                    name.as_ref(),
                    Field::Other(serde_json::from_str(text).ok()?),
                ))
            });
            fields.extend(others);
        } else {
            fields.insert(
                "cells",
                Field::Cells(known.iter().filter_map(Known::memory).collect()),
            );
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
        fields.extend(
            observed_generation.map(|number| ("observedGeneration", Field::Number(number))),
        );
        if !conditions.is_empty() {
            fields.insert("conditions", Field::Conditions(conditions));
        }
        serde_json::to_string(&fields).ok()
    }

    /// Each cell with its report, or with what the former status remembers of it.
    fn known<'f>(&'f self, former: &'f Report<'a>) -> Vec<Known<'f, 'a>> {
        let nobody_reports = self.cells.values().all(|cell| cell.report.is_none());
        let mut cells: Vec<_> = self
            .cells
            .iter()
            .map(|(name, cell)| match &cell.report {
                Some(report) => Known::reported(name, report, cell.silence.is_none()),
                None => Known::remembered(name, &former.cells),
            })
            .collect();
        // Until two cells are known, the former status itself is the memory. It does not name its cell: if several cells
        // are silent now, it is kept under the first name, so that the sum stays what it was.
        let is_memory = former.cells.is_empty()
            && (former.counters != Counters::default() || !former.conditions.is_empty());
        if let (Some(first), true) = (cells.first_mut(), nobody_reports && is_memory) {
            first.counters = former.counters;
            first.conditions.clone_from(&former.conditions);
            first.others.clone_from(&former.others);
            first.said = Said::Before;
        }
        cells
    }

    /// The condition that names the silent cells, while there are any. Its time stays while it stays False.
    fn cells_reporting(&self, former: &[Condition<'a>], now: Timestamp) -> Option<Condition<'a>> {
        let mut reason = None;
        let mut sentences = Vec::new();
        for (name, cell) in &self.cells {
            match &cell.silence {
                None => {}
                Some(Silence::NotApplied { message }) => {
                    reason = Some(CELL_NOT_APPLIED);
                    sentences.push(match message.as_ref() {
                        "" => format!("{name}: not applied yet"),
                        message => format!("{name}: not applied: {message}"),
                    });
                }
                Some(Silence::NotReported) => {
                    reason.get_or_insert(CELL_NOT_REPORTED);
                    sentences.push(format!("{name}: no status reported"));
                }
            }
        }
        let since = find(former, CELLS_REPORTING)
            .filter(|former| former.status == ConditionStatus::False)
            .map(|former| former.last_transition_time.clone());
        let begins_now = || {
            Timestamp::from_second(now.as_second())
                .unwrap_or(now)
                .to_string()
        };
        Some(Condition {
            last_transition_time: since.unwrap_or_else(|| begins_now().into()),
            message: truncated(sentences.join("; ").into()),
            observed_generation: None,
            reason: reason?.into(),
            status: ConditionStatus::False,
            type_: CELLS_REPORTING.into(),
        })
    }
}

impl<'f, 'a> Known<'f, 'a> {
    fn reported(name: &'f str, report: &'f Report<'a>, current: bool) -> Self {
        Self {
            name,
            counters: report.counters,
            conditions: report.conditions.clone(),
            resource_template_generation: report.generations.resource_template_generation,
            others: report.others.clone(),
            said: if current {
                Said::Now(report)
            } else {
                Said::Before
            },
        }
    }

    fn remembered(name: &'f str, memory: &[CellMemory<'a>]) -> Self {
        let memory = memory.iter().find(|cell| cell.name == name);
        Self {
            name,
            counters: memory.map(CellMemory::counters).unwrap_or_default(),
            conditions: memory
                .map(|cell| cell.conditions.clone())
                .unwrap_or_default(),
            resource_template_generation: memory.and_then(|cell| cell.resource_template_generation),
            others: BTreeMap::new(),
            said: if memory.is_some() {
                Said::Before
            } else {
                Said::Never
            },
        }
    }

    /// The entry in `status.cells`; a cell that never said anything has none.
    fn memory(&self) -> Option<CellMemory<'f>>
    where
        'a: 'f,
    {
        if matches!(self.said, Said::Never) {
            return None;
        }
        let Counters {
            current_replicas,
            desired_replicas,
            ready_replicas,
            replicas,
        } = self.counters;
        Some(CellMemory {
            conditions: self.conditions.clone(),
            current_replicas,
            desired_replicas,
            name: self.name.into(),
            ready_replicas,
            replicas,
            resource_template_generation: self.resource_template_generation,
        })
    }

    fn carries_observed_generation(&self) -> bool {
        match self.said {
            Said::Now(report) => report.generations.observed_generation.is_some(),
            Said::Before => true,
            Said::Never => false,
        }
    }

    /// Whether the cell judged this condition, where it has it, by the generation that it reports.
    fn judged(&self, type_: &str) -> bool {
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
    fn counters(&self) -> Counters {
        Counters {
            current_replicas: self.current_replicas,
            desired_replicas: self.desired_replicas,
            ready_replicas: self.ready_replicas,
            replicas: self.replicas,
        }
    }
}

/// Whether the cell reports on the template's generation and has acted on what it has (karmada.md 4.3).
fn is_current(cell: &Known<'_, '_>, template: &Template<'_>) -> bool {
    let Said::Now(report) = cell.said else {
        return false;
    };
    let generations = report.generations;
    generations.resource_template_generation.is_some()
        && generations.resource_template_generation == template.generation
        && generations.generation.is_some()
        && generations.generation == generations.observed_generation
}

/// Whether the replicas assigned to all cells sum to the template's, or each equal them. Karmada sends a new template
/// out with the old shares first (karmada.md 12, 2), so the generation alone does not tell.
fn shares_add_up(known: &[Known<'_, '_>], template: &Template<'_>) -> bool {
    let Some(total) = template.replicas.or(template.min_replicas) else {
        return false;
    };
    let total = i64::from(total.max(0));
    let shares: Option<Vec<i64>> = known
        .iter()
        .map(|cell| match cell.said {
            Said::Now(report) if template.replicas.is_some() => {
                report.generations.assigned_replicas
            }
            Said::Now(report) => report
                .generations
                .assigned_min_replicas
                .or(report.generations.assigned_replicas),
            Said::Before | Said::Never => None,
        })
        .map(|share| share.map(|share| share.max(0)))
        .collect();
    shares.is_some_and(|shares| {
        shares.iter().all(|share| *share == total)
            || shares
                .iter()
                .fold(0_i64, |sum, share| sum.saturating_add(*share))
                == total
    })
}

fn sum(known: &[Known<'_, '_>]) -> Counters {
    let total = |counter: fn(&Counters) -> i32| {
        let total: i64 = known
            .iter()
            .map(|cell| i64::from(counter(&cell.counters)))
            .sum();
        i32::try_from(total).unwrap_or(if total < 0 { i32::MIN } else { i32::MAX })
    };
    Counters {
        current_replicas: total(|counters| counters.current_replicas),
        desired_replicas: total(|counters| counters.desired_replicas),
        ready_replicas: total(|counters| counters.ready_replicas),
        replicas: total(|counters| counters.replicas),
    }
}

/// One condition per type, sorted by type. `Available` holds where any cell has it, every other type is as bad as its
/// worst cell. The first cell by name that has the joined status gives reason and message.
fn join<'a>(known: &[Known<'_, 'a>], former: &[Condition<'a>]) -> Vec<Condition<'a>> {
    let mut deciding: BTreeMap<&str, (&str, &Condition<'a>)> = BTreeMap::new();
    for cell in known {
        for condition in &cell.conditions {
            let decides = match deciding.get(condition.type_.as_ref()) {
                None => true,
                Some((_, other)) if condition.type_ == AVAILABLE => condition.status > other.status,
                Some((_, other)) => condition.status < other.status,
            };
            if decides {
                deciding.insert(&condition.type_, (cell.name, condition));
            }
        }
    }
    deciding
        .into_values()
        .map(|(cell, condition)| {
            let mut joined = condition.clone();
            let former = find(former, &condition.type_).filter(|f| f.status == condition.status);
            if let Some(former) = former {
                joined
                    .last_transition_time
                    .clone_from(&former.last_transition_time);
            }
            joined.message = truncated(match condition.message.as_ref() {
                "" => cell.to_owned().into(),
                message => format!("{cell}: {message}").into(),
            });
            joined
        })
        .collect()
}

fn find<'c, 'a>(conditions: &'c [Condition<'a>], type_: &str) -> Option<&'c Condition<'a>> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The conditions of a former status, with the fold's own.
fn all_conditions(status: Option<&str>) -> Vec<Condition<'_>> {
    #[derive(Default, serde::Deserialize)]
    struct Conditions<'a> {
        #[serde(borrow, default)]
        conditions: Vec<Condition<'a>>,
    }
    let conditions =
        status.and_then(|status| serde_json::from_str::<Option<Conditions<'_>>>(status).ok());
    conditions.flatten().unwrap_or_default().conditions
}

/// At most as many characters as a condition's message may have.
fn truncated(message: Cow<'_, str>) -> Cow<'_, str> {
    if message.chars().count() <= MESSAGE_MAX {
        return message;
    }
    message.chars().take(MESSAGE_MAX).collect::<String>().into()
}
