//! Decides how long the deletion of a WorkloadDeployment waits for the Instances in its cells
//! (docs/concepts/ownership.md#deletion-of-a-workloaddeployment).

use std::time::Duration;

use api::condition::{self, Condition, ConditionStatus, MESSAGE_MAX};
use api::reasons::workload_deployment::{INSTANCES_MAY_REMAIN, INSTANCES_REMAIN, TERMINATING};
use api::workload_deployment::{AVAILABLE, INSTANCES_ENDED};
use api::{WorkloadDeployment, WorkloadDeploymentStatus};
use interpreters::fold::checked_name_above;
use jiff::Timestamp;

use crate::federator::cell_items::{CellItem, ReportedCellBelow, ReportedObject, items_by_cell};
use crate::hub::cells::{CellState, CopyCells};

/// How long a deletion waits for the cells that can be reached, after they were asked to end the Instances. An Instance
/// waits for two minutes for a quota system that does not answer.
pub(crate) const ENDING_MAX: Duration = Duration::from_mins(3);
/// How long a deletion waits before it says so. On an idle federation, the cells have ended after about a second.
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
pub(super) enum EndingStep {
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
    pub(super) step: EndingStep,
    /// Whether the copy is deleted if the cells cannot be asked, because the hub refuses the change.
    pub(super) is_late: bool,
    /// When to look at the cells again, if nothing changes.
    pub(super) look_again: Option<Duration>,
    /// The reason and the message of the condition about the remaining cells, if the project must show it.
    shown: Option<(&'static str, String)>,
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
        let asked = copy.ending_since().filter(|_| wants_none(copy));
        let until = asked.map(|asked| after(asked, ENDING_MAX));
        let step = match (remaining.iter().any(|cell| cell.is_reachable), until) {
            (true, None) => EndingStep::Ask,
            (true, Some(until)) if now < until => EndingStep::Wait,
            _ => EndingStep::Delete,
        };
        let (shown, look_again) = match (step, asked, until) {
            (EndingStep::Wait, Some(asked), Some(until)) => {
                let shown_at = after(asked, ENDING_SHOWN_AFTER);
                let is_shown = now >= shown_at;
                let next = if is_shown { until } else { shown_at };
                let shown = is_shown.then(|| (INSTANCES_REMAIN, waits(&remaining, until)));
                (shown, Some(rest(next, now)))
            }
            (EndingStep::Delete, ..) if !remaining.is_empty() => {
                (Some((INSTANCES_MAY_REMAIN, gives_up(&remaining))), None)
            }
            _ => (None, None),
        };
        Self {
            step,
            is_late: now >= after(since, ENDING_MAX),
            look_again,
            shown,
        }
    }

    /// Returns the message about the cells in which Instances may run after the deletion.
    pub(super) fn may_remain(&self) -> Option<&str> {
        let (_, message) = self.shown.as_ref()?;
        (self.step == EndingStep::Delete).then_some(message)
    }

    /// Returns the status with the condition about the remaining cells, if it must be shown and differs. `reported` returns
    /// the status without the condition. If the cells have not reported, the status that the project shows stays.
    pub(super) fn changed_status(
        &self,
        deployment: &WorkloadDeployment,
        reported: impl FnOnce() -> Option<WorkloadDeploymentStatus>,
        now: Timestamp,
    ) -> Option<WorkloadDeploymentStatus> {
        let (reason, message) = self.shown.as_ref()?;
        let shown = deployment.status.as_ref();
        let mut status = reported().or_else(|| shown.cloned()).unwrap_or_default();
        let (is_false, terminating) = (ConditionStatus::False, "the deployment is being deleted");
        for condition in [
            Condition::new(AVAILABLE, is_false, TERMINATING, terminating, now),
            Condition::new(INSTANCES_ENDED, is_false, reason, message, now),
        ] {
            // If the condition is shown already, the time of its transition stays.
            let former = shown.and_then(|it| condition::find(&it.conditions, &condition.type_));
            condition::remove(&mut status.conditions, &condition.type_);
            status.conditions.extend(former.cloned());
            condition::set(&mut status.conditions, condition);
        }
        (shown != Some(&status)).then_some(status)
    }
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn rest(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

/// Returns the message while the deletion waits for these cells.
fn waits(remaining: &[RemainingCell], until: Timestamp) -> String {
    let cells = named_cells(remaining);
    let message = format!("{cells} may still have instances; the deletion waits until {until}");
    message.chars().take(MESSAGE_MAX).collect()
}

/// Returns the message when the deletion does not wait for these cells any longer.
fn gives_up(remaining: &[RemainingCell]) -> String {
    let cells = named_cells(remaining);
    let why = match remaining.iter().any(|cell| cell.is_reachable) {
        true => format!("has waited for {} s", ENDING_MAX.as_secs()),
        false => "does not wait for cells that cannot be reached".to_owned(),
    };
    let message = format!("instances may still run in {cells}; the deletion {why}");
    message.chars().take(MESSAGE_MAX).collect()
}

/// Returns the cells that have Instances of the copy, or may have some, by name. Without a binding, it is not known
/// which cells have the copy, and there are none.
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
        let below = reported.map_or_else(Vec::new, |reported| {
            below(&name, reported, copy, &is_reachable)
        });
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

/// Returns whether the cells make no Instances for this copy.
fn wants_none(copy: &WorkloadDeployment) -> bool {
    copy.is_ending() && copy.spec.desired_replicas() == 0
}

/// Returns whether a cell has acted on a copy that wants no Instances, and has none.
fn has_ended(item: &CellItem, copy: &WorkloadDeployment) -> bool {
    let Some(reported) = item.status.as_ref().filter(|_| item.applied) else {
        return false;
    };
    wants_none(copy)
        && copy.metadata.generation.is_some()
        && reported.resource_template_generation == copy.metadata.generation
        && reported.generation.is_some()
        && reported.observed_generation == reported.generation
        && reported.replicas == Some(0)
}

/// Returns the cells below a lower hub that have not ended. Returns none if the lower hub does not name them.
fn below(
    lower_hub: &str,
    reported: &ReportedObject,
    copy: &WorkloadDeployment,
    is_reachable: &dyn Fn(&str) -> bool,
) -> Vec<RemainingCell> {
    let is_current = reported.resource_template_generation == copy.metadata.generation;
    // The generation in an entry is one of the lower hub's object.
    let has_ended = |cell: &ReportedCellBelow| {
        wants_none(copy)
            && is_current
            && cell.replicas == 0
            && cell.resource_template_generation.is_some()
            && cell.resource_template_generation == reported.generation
    };
    let several = reported.cells.iter().filter(|cell| !has_ended(cell));
    let several = several.map(|cell| (&cell.name, cell.replicas));
    let only = reported.reporting_cell.iter();
    let only = only.map(|name| (name, reported.replicas.unwrap_or_default()));
    let only = only.filter(|_| reported.cells.is_empty());
    let cells = several.chain(only).map(|(name, instances)| {
        let name = checked_name_above(lower_hub, name);
        RemainingCell {
            is_reachable: is_reachable(&name),
            instances: Some(instances),
            name,
        }
    });
    cells.collect()
}

/// Returns the names of the cells, with what is known of each.
fn named_cells(remaining: &[RemainingCell]) -> String {
    let cell = |cell: &RemainingCell| {
        let RemainingCell {
            name,
            instances,
            is_reachable,
        } = cell;
        let instances = match instances {
            Some(0) => "has not answered".to_owned(),
            Some(count) => format!("{count}"),
            None => "number unknown".to_owned(),
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
