//! Computes the status of a project's WorkloadDeployment from the status of its copy on the hub.

use std::collections::BTreeSet;

use api::condition::{self, Condition, ConditionStatus, MESSAGE_MAX};
use api::identity::IdentityError;
use api::instance::REFERENCED_DATA_READY;
use api::reasons::workload_deployment::HUB_REFUSED;
pub(super) use api::reasons::workload_deployment::INVALID_CITY_CODE;
use api::reasons::workload_deployment::{FORMER_RULES, NOT_REPORTED, OVERRIDE_FAILED};
pub(super) use api::reasons::workload_deployment::{HUB_CONTRADICTED, HUB_NAMESPACE_CONTRADICTED};
use api::workload_deployment::{
    AUTOSCALING_READY, AVAILABLE, CELLS_REPORTING, INSTANCES_ENDED, REPLICAS_READY, RULES_APPLIED,
};
use api::{WorkloadDeployment, WorkloadDeploymentStatus};
use jiff::Timestamp;

use crate::generation::GenerationMap;

/// Text between a message about overrides and one of the cells.
const OF_CELLS: &str = "; besides, ";

/// Conditions that are copied from the hub, or that the federator adds. If the hub no longer has a condition, it is
/// removed from the project.
const MIRRORED: [&str; 6] = [
    AUTOSCALING_READY,
    AVAILABLE,
    INSTANCES_ENDED,
    REPLICAS_READY,
    CELLS_REPORTING,
    RULES_APPLIED,
];

/// Returns the hub's status for the project. Its generations and its selector are translated.
/// `status.cells` and `status.reportingCell` are removed. Conditions that other controllers of the project own are kept.
pub(super) fn status(
    deployment: &WorkloadDeployment,
    copy: &WorkloadDeployment,
    hub: &WorkloadDeploymentStatus,
    in_step: bool,
) -> WorkloadDeploymentStatus {
    let former = deployment.status.clone().unwrap_or_default();
    let generations = GenerationMap {
        source: copy.metadata.generation,
        target: deployment.metadata.generation,
        in_step,
    };
    let mut conditions = generations.translate_conditions(&hub.conditions, &former.conditions);
    for own in [REFERENCED_DATA_READY, INSTANCES_ENDED] {
        condition::remove(&mut conditions, own);
    }
    if let Some(cell) = &hub.reporting_cell {
        name_cell(&mut conditions, cell);
    }
    let own = former.conditions.into_iter().filter(|own| {
        !MIRRORED.contains(&own.type_.as_str())
            && condition::find(&conditions, &own.type_).is_none()
    });
    let own: Vec<_> = own.collect();
    conditions.extend(own);
    WorkloadDeploymentStatus {
        cells: Vec::new(),
        conditions,
        observed_generation: generations
            .translate(hub.observed_generation, former.observed_generation),
        reporting_cell: None,
        selector: deployment.instance_selector(),
        ..hub.clone()
    }
}

/// Adds the condition about overrides that fail, while cells lack the copy. A condition that is shown stays while one of
/// its cells lacks the copy, because a failure has no Event about its end. `status` is `None` if no cell has ever reported.
/// `lacking` is `None` if it is not known which cells lack the copy.
pub(super) fn with_override_failure(
    status: Option<WorkloadDeploymentStatus>,
    deployment: &WorkloadDeployment,
    lacking: Option<&BTreeSet<String>>,
    known: Option<&str>,
    now: Timestamp,
) -> Option<WorkloadDeploymentStatus> {
    if lacking.is_some_and(BTreeSet::is_empty) {
        return status;
    }
    let shown = deployment.status.as_ref();
    let shown = shown.and_then(|shown| condition::find(&shown.conditions, RULES_APPLIED));
    let shown = shown.filter(|it| it.reason == OVERRIDE_FAILED);
    let shown_message = shown.map(|shown| shown.message.as_str());
    let shown_message = shown_message.map(|it| it.split(OF_CELLS).next().unwrap_or_default());
    let stays = |message: &str| {
        let mut cells = message.split("; ").filter_map(failing_cell);
        lacking.is_none_or(|lacking| cells.any(|cell| lacking.contains(cell)))
    };
    let Some(message) = known.or_else(|| shown_message.filter(|it| stays(it))) else {
        return status;
    };
    let mut status = status.unwrap_or_else(|| unreported(WorkloadDeploymentStatus::default(), now));
    let of_cells = condition::find(&status.conditions, RULES_APPLIED).filter(|it| it.is_false());
    let message = match of_cells {
        Some(of_cells) => format!("{message}{OF_CELLS}{}", of_cells.message),
        None => message.to_owned(),
    };
    show_rules_problem(&mut status, OVERRIDE_FAILED, &message, shown, now);
    Some(status)
}

/// Replaces the condition `RulesApplied` by one about a problem. `shown` is the condition whose time stays.
fn show_rules_problem(
    status: &mut WorkloadDeploymentStatus,
    reason: &'static str,
    message: &str,
    shown: Option<&Condition>,
    now: Timestamp,
) {
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let mut problem = Condition::new(RULES_APPLIED, ConditionStatus::False, reason, message, now);
    if let Some(shown) = shown {
        problem.last_transition_time = shown.last_transition_time.clone();
    }
    condition::remove(&mut status.conditions, RULES_APPLIED);
    status.conditions.push(problem);
}

/// Adds the condition about cells that still have their former rules. It is shown when that takes long, and then until no
/// cell has former rules. Rules that cannot be applied are more important.
pub(super) fn with_former_rules(
    mut status: WorkloadDeploymentStatus,
    deployment: &WorkloadDeployment,
    cells: &BTreeSet<String>,
    is_late: bool,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let shown = deployment.status.as_ref();
    let shown = shown.and_then(|shown| condition::find(&shown.conditions, RULES_APPLIED));
    let is_shown = shown.is_some_and(|it| it.reason == FORMER_RULES);
    let of_cells = condition::find(&status.conditions, RULES_APPLIED);
    if cells.is_empty() || !(is_late || is_shown) || of_cells.is_some_and(Condition::is_false) {
        return status;
    }
    let names: Vec<_> = cells.iter().map(String::as_str).collect();
    let message = format!("{}: the cell still has its former rules", names.join(", "));
    let shown = shown.filter(|it| it.is_false());
    show_rules_problem(&mut status, FORMER_RULES, &message, shown, now);
    status
}

/// Returns the cell in a part of the message of [`OVERRIDE_FAILED`].
fn failing_cell(part: &str) -> Option<&str> {
    let (cell, problem) = part.split_once(": ")?;
    let kinds = ["OverridePolicy ", "ClusterOverridePolicy "];
    kinds
        .iter()
        .any(|kind| problem.starts_with(kind))
        .then_some(cell)
}

/// Adds the name of the cell to each message about a problem, as for a WorkloadDeployment with several cells.
fn name_cell(conditions: &mut [Condition], cell: &str) {
    let prefix = format!("{cell}: ");
    let problems = conditions.iter_mut().filter(|it| {
        it.type_ != CELLS_REPORTING && !it.is_true() && !it.message.starts_with(&prefix)
    });
    for problem in problems {
        let message = prefix.clone() + &problem.message;
        problem.message = message.chars().take(MESSAGE_MAX).collect();
    }
}

/// Returns the former status with `Available` Unknown and without the other mirrored conditions. The copy on the hub
/// was created again, and no cell has reported yet.
pub(super) fn unreported(
    former: WorkloadDeploymentStatus,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let mut former = WorkloadDeploymentStatus {
        observed_generation: None,
        ..former
    };
    for type_ in MIRRORED.into_iter().filter(|type_| *type_ != AVAILABLE) {
        condition::remove(&mut former.conditions, type_);
    }
    let message = "no cell has reported since the hub's copy was made";
    unknown(former, NOT_REPORTED, message, now)
}

/// Returns the status of a copy that no cell has reported about, with the counters that the project shows. The copy was
/// created again, so these are the last known counters.
pub(super) fn with_former_counters(
    status: WorkloadDeploymentStatus,
    former: Option<&WorkloadDeploymentStatus>,
) -> WorkloadDeploymentStatus {
    let Some(former) = former else {
        return status;
    };
    WorkloadDeploymentStatus {
        replicas: former.replicas,
        current_replicas: former.current_replicas,
        desired_replicas: former.desired_replicas,
        ready_replicas: former.ready_replicas,
        updated_replicas: former.updated_replicas,
        ..status
    }
}

/// Returns the status while the hub refuses the copy, its namespace or its policy. `planned` is the status without the
/// refusal, if it differs from the current one. Without a copy, no cell reports, so the counters keep their last known
/// values, as for a cell that is unreachable. With a copy, the cells still report about the former spec.
pub(in crate::federator) fn refused(
    deployment: &WorkloadDeployment,
    planned: Option<WorkloadDeploymentStatus>,
    refusal: &str,
    has_copy: bool,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let shown = deployment.status.clone().unwrap_or_default();
    let shown_reporting = condition::find(&shown.conditions, CELLS_REPORTING).cloned();
    let mut status = planned.unwrap_or(shown);
    // If the status of the condition does not change, the time of its transition stays.
    if let Some(shown) = shown_reporting {
        condition::remove(&mut status.conditions, CELLS_REPORTING);
        status.conditions.push(shown);
    }
    let reporting = Condition::new(
        CELLS_REPORTING,
        ConditionStatus::False,
        HUB_REFUSED,
        refusal,
        now,
    );
    condition::set(&mut status.conditions, reporting);
    match has_copy {
        true => status,
        false => unknown(status, HUB_REFUSED, refusal, now),
    }
}

/// Returns the message of the refusal that the status shows, if it shows one.
pub(in crate::federator) fn shown_refusal(deployment: &WorkloadDeployment) -> Option<String> {
    let conditions = &deployment.status.as_ref()?.conditions;
    let reporting = condition::find(conditions, CELLS_REPORTING)?;
    (reporting.reason == HUB_REFUSED).then(|| reporting.message.clone())
}

/// Returns a status with the reason why nothing is written to the hub.
pub(in crate::federator) fn contradicted(
    deployment: &WorkloadDeployment,
    reason: &str,
    problem: &str,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let former = deployment.status.clone().unwrap_or_default();
    unknown(former, reason, problem, now)
}

/// Returns the former status with its condition `Available` set to Unknown.
fn unknown(
    former: WorkloadDeploymentStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let mut status = former;
    let available = Condition::new(AVAILABLE, ConditionStatus::Unknown, reason, message, now);
    condition::set(&mut status.conditions, available);
    status
}

/// Returns a status with the explanation that the city code is invalid and that nothing is written to the hub.
pub(super) fn invalid_city_code(
    deployment: &WorkloadDeployment,
    error: &IdentityError,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let mut status = deployment.status.clone().unwrap_or_default();
    condition::remove(&mut status.conditions, CELLS_REPORTING);
    let available = Condition::new(
        AVAILABLE,
        ConditionStatus::False,
        INVALID_CITY_CODE,
        error.to_string(),
        now,
    );
    condition::set(
        &mut status.conditions,
        available.observed(deployment.metadata.generation),
    );
    status
}
