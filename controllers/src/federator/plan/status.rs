//! The status of a project's WorkloadDeployment, from that of its copy on the hub.

use api::condition::{self, Condition, ConditionStatus};
use api::conditions::REFERENCED_DATA_READY;
use api::identity::IdentityError;
pub(super) use api::reasons::workload_deployment::HUB_NAMESPACE_CONTRADICTED;
pub(super) use api::reasons::workload_deployment::INVALID_CITY_CODE;
use api::reasons::workload_deployment::NOT_REPORTED;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, REPLICAS_READY};
use api::{WorkloadDeployment, WorkloadDeploymentStatus};
use jiff::Timestamp;

use crate::generation::GenerationMap;

/// Conditions that come from the hub: one that the hub has no more goes.
const MIRRORED: [&str; 3] = [AVAILABLE, REPLICAS_READY, CELLS_REPORTING];

/// The hub's status for the project: generations translated, the hub's memory of its cells left out, and the conditions
/// that others own in the project kept (P-17).
pub(super) fn status(
    deployment: &WorkloadDeployment,
    copy: &WorkloadDeployment,
    hub: &WorkloadDeploymentStatus,
    in_step: bool,
) -> WorkloadDeploymentStatus {
    let former = deployment.status.clone().unwrap_or_default();
    let planes = GenerationMap {
        source: copy.metadata.generation,
        target: deployment.metadata.generation,
        in_step,
    };
    let mut conditions = planes.translate_conditions(&hub.conditions, &former.conditions);
    condition::remove(&mut conditions, REFERENCED_DATA_READY);
    let own = former.conditions.into_iter().filter(|own| {
        !MIRRORED.contains(&own.type_.as_str())
            && condition::find(&conditions, &own.type_).is_none()
    });
    let own: Vec<_> = own.collect();
    conditions.extend(own);
    WorkloadDeploymentStatus {
        cells: Vec::new(),
        conditions,
        observed_generation: planes.translate(hub.observed_generation, former.observed_generation),
        ..hub.clone()
    }
}

/// What is left of a status whose copy on the hub was made anew and has none yet.
pub(super) fn unreported(
    former: WorkloadDeploymentStatus,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let mut former = WorkloadDeploymentStatus {
        observed_generation: None,
        ..former
    };
    for type_ in [REPLICAS_READY, CELLS_REPORTING] {
        condition::remove(&mut former.conditions, type_);
    }
    let message = "no cell has reported since the hub's copy was made";
    unknown(former, NOT_REPORTED, message, now)
}

/// Nothing is done, and the deployment says why.
pub(super) fn contradicted(
    deployment: &WorkloadDeployment,
    problem: &str,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let former = deployment.status.clone().unwrap_or_default();
    unknown(former, HUB_NAMESPACE_CONTRADICTED, problem, now)
}

/// The former status, of which no one can tell whether it still stands.
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

/// Nothing reaches the hub, and the deployment says why.
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
