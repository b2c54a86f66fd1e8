//! Decides how long the deletion of a WorkloadDeployment waits for the Instances in its cells
//! (docs/concepts/ownership.md#deletion-of-a-workloaddeployment).

use std::time::Duration;

use api::condition::{self, Condition, ConditionStatus, MESSAGE_MAX};
use api::reasons::workload_deployment::{CELLS_NOT_AWAITED, INSTANCES_REMAIN};
use api::workload_deployment::INSTANCES_ENDED;
use api::{WorkloadDeployment, WorkloadDeploymentStatus};
use interpreters::fold::below_name;
use jiff::Timestamp;

use crate::federator::cell_items::{CellItem, ReportedObject, items_by_cell};
use crate::hub::cells::{CellState, CopyCells};

/// How long a deletion waits for the cells that can be reached. An Instance waits for two minutes for a quota system that
/// does not answer.
pub(crate) const ENDING_MAX: Duration = Duration::from_mins(3);
/// How long a deletion waits before it says so. Most deletions are shorter, and need no status.
pub(crate) const ENDING_SHOWN_AFTER: Duration = Duration::from_secs(2);
/// How many cells the message of the condition names.
const ENDING_NAMED_MAX: usize = 10;

/// A cell that has Instances of a WorkloadDeployment, or may have some.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RemainingCell {
    name: String,
    /// The number of Instances, if the cell has reported it.
    instances: Option<i64>,
    is_reachable: bool,
}

/// The next step of the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Let the cells end their Instances, and wait for them.
    Ask,
    /// Wait for the cells.
    Wait,
    /// Delete the copy, also if cells may still have Instances.
    Delete,
}

/// How far the deletion of a WorkloadDeployment is.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) step: Step,
    /// When to look again. A change of the cells is noticed earlier.
    pub(super) waits: Option<Duration>,
    remaining: Vec<RemainingCell>,
    /// The time until which the deletion waits.
    until: Option<Timestamp>,
    is_shown: bool,
}

impl Ending {
    /// Returns how far the deletion is of a WorkloadDeployment that the project has deleted at the time `since`.
    pub(super) fn of(
        copy: &WorkloadDeployment,
        cells: CopyCells<'_>,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let remaining = remaining(copy, cells);
        let (shown_at, until) = (after(since, ENDING_SHOWN_AFTER), after(since, ENDING_MAX));
        let step = match remaining.iter().any(|cell| cell.is_reachable) && now < until {
            false => Step::Delete,
            true if copy.is_ending() && copy.spec.desired_replicas() == 0 => Step::Wait,
            true => Step::Ask,
        };
        let until = (step != Step::Delete).then_some(until);
        let is_shown = !remaining.is_empty() && (until.is_none() || now >= shown_at);
        let waits = until.map(|until| {
            let next = if is_shown { until } else { shown_at };
            Duration::try_from(next.duration_since(now)).unwrap_or_default()
        });
        Self {
            step,
            waits,
            remaining,
            until,
            is_shown,
        }
    }

    /// Returns the status with the condition about the remaining cells, if it must be shown and differs. `reported` is the status
    /// without the condition. If the cells have not reported, the status that the project shows stays.
    pub(super) fn changed_status(
        &self,
        deployment: &WorkloadDeployment,
        reported: Option<WorkloadDeploymentStatus>,
        now: Timestamp,
    ) -> Option<WorkloadDeploymentStatus> {
        if !self.is_shown {
            return None;
        }
        let shown = deployment.status.as_ref();
        let mut status = reported.or_else(|| shown.cloned()).unwrap_or_default();
        // If the condition is shown already, the time of its transition stays.
        let former = shown.and_then(|shown| condition::find(&shown.conditions, INSTANCES_ENDED));
        condition::remove(&mut status.conditions, INSTANCES_ENDED);
        status.conditions.extend(former.cloned());
        let cells = describe(&self.remaining);
        let (reason, message) = match self.until {
            Some(until) => {
                let message = format!("waits until {until} for the instances in {cells} to end");
                (INSTANCES_REMAIN, message)
            }
            None => {
                let message = format!("does not wait for the instances in {cells}");
                (CELLS_NOT_AWAITED, message)
            }
        };
        let message: String = message.chars().take(MESSAGE_MAX).collect();
        let is_false = ConditionStatus::False;
        let ended = Condition::new(INSTANCES_ENDED, is_false, reason, message, now);
        condition::set(&mut status.conditions, ended);
        (shown != Some(&status)).then_some(status)
    }
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Returns the cells that have Instances of the copy, or may have some, by name. Without a binding, it is not known which
/// cells have the copy, and there are none.
fn remaining(copy: &WorkloadDeployment, cells: CopyCells<'_>) -> Vec<RemainingCell> {
    let Some(binding) = cells.binding else {
        return Vec::new();
    };
    let mut items = items_by_cell(binding);
    for target in &binding.spec.clusters {
        items.entry(target.name.clone()).or_default();
    }
    let is_reachable = |cell: &str| (cells.state)(cell) == CellState::Reachable;
    let mut remaining = Vec::new();
    for (name, item) in items {
        let reported = item.as_ref().and_then(|item| item.status.as_ref());
        if item.as_ref().is_some_and(|item| has_ended(item, copy)) {
            continue;
        }
        let below =
            reported.map_or_else(Vec::new, |reported| below(&name, reported, &is_reachable));
        if below.is_empty() {
            remaining.push(RemainingCell {
                is_reachable: is_reachable(&name),
                instances: reported.and_then(|reported| reported.replicas),
                name,
            });
        }
        remaining.extend(below);
    }
    remaining
}

/// Returns whether a cell has acted on the copy and has no Instances.
fn has_ended(item: &CellItem, copy: &WorkloadDeployment) -> bool {
    let Some(reported) = item.status.as_ref().filter(|_| item.applied) else {
        return false;
    };
    copy.metadata.generation.is_some()
        && reported.resource_template_generation == copy.metadata.generation
        && reported.generation.is_some()
        && reported.observed_generation == reported.generation
        && reported.replicas == Some(0)
}

/// Returns the cells below a lower hub that have Instances. If none of them has, one that does not report may have some.
/// Returns nothing if it is not known which cell that is.
fn below(
    lower_hub: &str,
    reported: &ReportedObject,
    is_reachable: &dyn Fn(&str) -> bool,
) -> Vec<RemainingCell> {
    let several = reported
        .cells
        .iter()
        .map(|cell| (&cell.name, cell.replicas));
    let only = reported.reporting_cell.iter();
    let only = only.map(|name| (name, reported.replicas.unwrap_or_default()));
    let only = only.filter(|_| reported.cells.is_empty());
    let cells = several.chain(only).map(|(name, instances)| {
        let name = below_name(lower_hub, name);
        RemainingCell {
            is_reachable: is_reachable(&name),
            instances: Some(instances),
            name,
        }
    });
    let cells: Vec<_> = cells.collect();
    let runs = |cell: &RemainingCell| cell.instances != Some(0);
    match cells.iter().any(runs) {
        true => cells.into_iter().filter(runs).collect(),
        false => cells
            .into_iter()
            .filter(|cell| !cell.is_reachable)
            .collect(),
    }
}

/// Returns the message about the cells that a deletion does not wait for.
pub(in crate::federator) fn not_awaited(status: &WorkloadDeploymentStatus) -> Option<&str> {
    let ended = condition::find(&status.conditions, INSTANCES_ENDED)?;
    (ended.reason == CELLS_NOT_AWAITED).then_some(ended.message.as_str())
}

/// Returns the names of the cells, with what is known of each.
fn describe(remaining: &[RemainingCell]) -> String {
    let cell = |cell: &RemainingCell| {
        let RemainingCell {
            name,
            instances,
            is_reachable,
        } = cell;
        let instances = match instances {
            Some(count) if *count > 0 => format!("{count}"),
            _ => "number unknown".to_owned(),
        };
        match is_reachable {
            true => format!("{name} ({instances})"),
            false => format!("{name} ({instances}, cannot be reached)"),
        }
    };
    let named: Vec<_> = remaining.iter().take(ENDING_NAMED_MAX).map(cell).collect();
    let named = named.join(", ");
    match remaining.len().saturating_sub(ENDING_NAMED_MAX) {
        0 => named,
        rest => format!("{named} and {rest} more cells"),
    }
}
