//! From the fold to the status that is written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::ConditionStatus;
use api::condition::MESSAGE_MAX;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::known::{Assigned, Known, Said, are_of, is_current, shares};
use super::report::{CellMemory, Condition, Counters, Report, saturated};
use super::{Silence, StatusFold, Template};

const CELL_NOT_APPLIED: &str = "CellNotApplied";
const CELL_NOT_REPORTED: &str = "CellNotReported";
/// Between what is said of two cells.
const SEPARATOR: &str = "; ";

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
        }
        // A single cell that reports is remembered by the status itself.
        let assigned = |cell: &Known<'_, '_>| match &shares {
            Some((shares, total)) if current => Assigned {
                assigned_replicas: cell.name.and_then(|name| shares.get(name).copied()),
                template_replicas: Some(*total),
            },
            _ => former
                .cells
                .iter()
                .find(|former| Some(former.name.as_ref()) == cell.name)
                .map(CellMemory::assigned)
                .unwrap_or_default(),
        };
        let cells: Vec<_> = known
            .iter()
            .filter_map(|cell| cell.memory(assigned(cell)))
            .collect();
        let is_memory = single && matches!(first.said, Said::Now(_));
        if !(cells.is_empty() || is_memory) {
            fields.insert("cells", Field::Cells(cells));
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
        let mut cells: Vec<_> = self
            .cells
            .iter()
            .map(|(name, cell)| match &cell.report {
                Some(report) => Known::reported(name, report, cell.silence.is_none()),
                None => Known::remembered(name, &former.cells),
            })
            .collect();
        if self.cells.values().any(|cell| cell.report.is_some()) {
            return cells;
        }
        // The status of a single cell that reported does not name it: that status itself is the memory.
        let unnamed = former.cells.is_empty()
            && (former.counters != Counters::default() || !former.conditions.is_empty());
        match cells.as_mut_slice() {
            [cell] if unnamed => *cell = Known::former(cell.name, former),
            [cell] => cell.others.clone_from(&former.others),
            [_, _, ..] if unnamed => cells = vec![Known::former(None, former)],
            _ => {}
        }
        cells
    }

    /// The condition that names the silent cells, while there are any. Its time stays while it stays False.
    fn cells_reporting(&self, former: &[Condition<'a>], now: Timestamp) -> Option<Condition<'a>> {
        let silent = self
            .cells
            .iter()
            .filter_map(|(name, cell)| Some((name, cell.silence.as_ref()?)));
        let silent: Vec<_> = silent.collect();
        let not_applied =
            |(_, silence): &(_, &Silence<'_>)| matches!(silence, Silence::NotApplied { .. });
        let reason = if silent.iter().any(not_applied) {
            CELL_NOT_APPLIED
        } else {
            CELL_NOT_REPORTED
        };
        // However long the message of one cell is, every cell is named.
        let longest = MESSAGE_MAX
            .checked_div(silent.len())?
            .saturating_sub(SEPARATOR.len());
        let sentences: Vec<_> = silent
            .into_iter()
            .map(|(name, silence)| match silence {
                Silence::NotApplied { message } if message.is_empty() => {
                    format!("{name}: not applied yet")
                }
                Silence::NotApplied { message } => format!("{name}: not applied: {message}"),
                Silence::NotReported => format!("{name}: no status reported"),
            })
            .map(|sentence| truncated(sentence.into(), longest))
            .collect();
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
            message: sentences.join(SEPARATOR).into(),
            observed_generation: None,
            reason: reason.into(),
            status: ConditionStatus::False,
            type_: CELLS_REPORTING.into(),
        })
    }
}

fn sum(known: &[Known<'_, '_>]) -> Counters {
    let total = |counter: fn(&Counters) -> i32| {
        let total: i64 = known
            .iter()
            .map(|cell| i64::from(counter(&cell.counters)))
            .sum();
        saturated(total)
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
                deciding.insert(&condition.type_, (cell.name.unwrap_or_default(), condition));
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
            let message = match condition.message.as_ref() {
                "" => cell.to_owned(),
                message => format!("{cell}: {message}"),
            };
            joined.message = truncated(message.into(), MESSAGE_MAX);
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
    let mut conditions = conditions.flatten().unwrap_or_default().conditions;
    conditions.retain(Condition::is_valid);
    conditions
}

/// At most so many characters of a message.
fn truncated(message: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    match message.char_indices().nth(longest) {
        Some((end, _)) => message.get(..end).unwrap_or_default().to_owned().into(),
        None => message,
    }
}
