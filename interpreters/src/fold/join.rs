//! Joins the counters and the conditions of several cells.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::condition::MESSAGE_MAX;
use api::workload_deployment::AVAILABLE;

use super::cell_view::{CellView, Source};
use super::condition::ConditionView;
use super::condition_index::{ConditionIndex, TypeKey, compared};
use super::status::{Counters, saturated};

/// Sums the counters of all cells. `updated_replicas` is `None` if no cell reports it.
pub(super) fn sum<'k, 'a: 'k>(cells: impl Iterator<Item = &'k CellView<'k, 'a>>) -> Counters {
    let mut required = [0_i64; 4];
    let mut updated = None;
    for counters in cells.map(CellView::counters) {
        let numbers = [
            counters.current_replicas,
            counters.desired_replicas,
            counters.ready_replicas,
            counters.replicas,
        ];
        for (total, number) in required.iter_mut().zip(numbers) {
            *total += i64::from(number);
        }
        if let Some(number) = counters.updated_replicas {
            updated = Some(updated.unwrap_or(0_i64) + i64::from(number));
        }
    }
    let [current, desired, ready, all] = required.map(saturated);
    Counters {
        current_replicas: current,
        desired_replicas: desired,
        ready_replicas: ready,
        replicas: all,
        updated_replicas: updated.map(saturated),
    }
}

/// Returns the label selector of the instances of several cells. All of them must report the same selector now: the
/// selector of one cell would not find the instances of another cell, and `status.cells` does not remember it.
pub(super) fn common_selector<'f>(items: &[CellView<'f, '_>]) -> Option<&'f str> {
    let mut selectors = items.iter().map(|cell| match cell.source {
        Source::Report(report) => report.selector(),
        Source::Memory | Source::Nothing => None,
    });
    let first = selectors.next()??;
    selectors.all(|other| other == Some(first)).then_some(first)
}

/// Returns whether the instances of several cells are suspended. All of them must report now that they are:
/// `status.cells` does not remember it.
pub(super) fn all_suspended(items: &[CellView<'_, '_>]) -> Option<bool> {
    let is_suspended = |cell: &CellView<'_, '_>| match cell.source {
        Source::Report(report) => report.suspended() == Some(true),
        Source::Memory | Source::Nothing => false,
    };
    (!items.is_empty() && items.iter().all(is_suspended)).then_some(true)
}

/// Longest name of a cell in a message, in bytes. The names of cells are ASCII. A cell far below can have a longer one,
/// and each of its conditions repeats it.
const CELL_MAX: usize = 128;

/// Returns one condition per type, sorted by type. `Available` gets the best status of all cells. Every other type gets
/// the worst status of all cells. The reason and the message come from the first cell, by name, with this status.
pub(super) fn join<'k, 'a: 'k>(
    cells: impl IntoIterator<Item = &'k CellView<'k, 'a>>,
    former: &[ConditionView<'a>],
) -> Vec<ConditionView<'a>> {
    let formers = ConditionIndex::of(former);
    let mut deciding: BTreeMap<TypeKey<'_>, (&str, &ConditionView<'a>)> = BTreeMap::new();
    for cell in cells {
        for condition in cell.conditions() {
            let type_ = TypeKey(&condition.type_);
            let decides = match deciding.get(&type_) {
                None => true,
                Some((_, other)) if condition.type_ == AVAILABLE => condition.status > other.status,
                Some((_, other)) => condition.status < other.status,
            };
            if decides {
                deciding.insert(type_, (cell.name.unwrap_or_default(), condition));
            }
        }
    }
    deciding
        .into_values()
        .map(|(cell, condition)| {
            let mut joined = condition.clone();
            let former = formers.find(&condition.type_);
            if let Some(former) = former.filter(|former| former.status == condition.status) {
                joined
                    .last_transition_time
                    .clone_from(&former.last_transition_time);
            }
            let cell = cell.get(..CELL_MAX).unwrap_or(cell);
            let message = match condition.message.as_ref() {
                "" => cell.to_owned(),
                message => format!("{cell}: {message}"),
            };
            joined.message = truncated(message.into(), MESSAGE_MAX);
            joined
        })
        .collect()
}

pub(super) fn find<'c, 'a>(
    conditions: &'c [ConditionView<'a>],
    type_: &str,
) -> Option<&'c ConditionView<'a>> {
    conditions
        .iter()
        .find(|condition| compared(&condition.type_, type_).is_eq())
}

/// Cuts a message to at most `max` characters.
pub(super) fn truncated(message: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    match message.char_indices().nth(max) {
        Some((end, _)) => message.get(..end).unwrap_or_default().to_owned().into(),
        None => message,
    }
}
