//! The status of a Workload, from those of its deployments (compute.md 1.1).

use std::collections::BTreeMap;

use api::condition::{self, Condition, ConditionStatus};
use api::workload::{AVAILABLE, WorkloadPlacementStatus};
use api::{WorkloadDeployment, WorkloadStatus, workload_deployment};
use jiff::Timestamp;
use kube::ResourceExt;

use super::Observed;

/// Why a placement or a Workload is available (compute.md 1.1).
pub(super) mod reason {
    pub(in crate::workload::plan) const DEPLOYMENT_FOUND: &str = "AvailableDeploymentFound";
    pub(in crate::workload::plan) const NO_DEPLOYMENTS: &str = "NoAvailableDeployments";
    pub(in crate::workload::plan) const PLACEMENT_FOUND: &str = "AvailablePlacementFound";
    pub(in crate::workload::plan) const NO_PLACEMENTS: &str = "NoAvailablePlacements";
}

/// Sums over all deployments, with one entry per placement: those of the spec in its order, then those that are going.
/// `in_step` says that the deployments are as the Workload's current generation wants them and have acted on it. What is
/// another's, the gateway, is left out.
pub(super) fn status(observed: &Observed<'_>, in_step: bool) -> WorkloadStatus {
    let Observed {
        workload,
        own,
        refusals,
        now,
        ..
    } = *observed;
    let former = workload.status.clone().unwrap_or_default();
    let mut by_placement: BTreeMap<&str, Vec<&WorkloadDeployment>> = BTreeMap::new();
    for deployment in own {
        by_placement
            .entry(&deployment.spec.placement_name)
            .or_default()
            .push(deployment);
    }
    let mut placements = Vec::new();
    for placement in &workload.spec.placements {
        if placements.iter().all(|(name, _)| *name != placement.name) {
            let deployments = by_placement
                .remove(placement.name.as_str())
                .unwrap_or_default();
            placements.push((placement.name.as_str(), deployments));
        }
    }
    placements.extend(by_placement);

    let generation = |former: &[Condition]| match in_step {
        true => workload.metadata.generation,
        false => condition::find(former, AVAILABLE).and_then(|former| former.observed_generation),
    };
    let placements: Vec<_> = placements
        .into_iter()
        .map(|(name, deployments)| {
            let former = former.placements.iter().find(|former| former.name == name);
            let mut conditions = former
                .map(|former| former.conditions.clone())
                .unwrap_or_default();
            let available = placement_available(&deployments, refusals.get(name), now)
                .observed(generation(&conditions));
            condition::set(&mut conditions, available);
            placement_status(name, &deployments, conditions)
        })
        .collect();

    let mut conditions = former.conditions;
    let available = workload_available(&placements, now).observed(generation(&conditions));
    condition::set(&mut conditions, available);
    let sum = |counter: fn(&WorkloadPlacementStatus) -> i32| {
        placements.iter().fold(0_i32, |sum, placement| {
            sum.saturating_add(counter(placement))
        })
    };
    WorkloadStatus {
        conditions,
        current_replicas: sum(|placement| placement.current_replicas),
        deployments: i32::try_from(own.len()).unwrap_or(i32::MAX),
        desired_replicas: sum(|placement| placement.desired_replicas),
        gateway: None,
        ready_replicas: sum(|placement| placement.ready_replicas),
        replicas: sum(|placement| placement.replicas),
        placements,
    }
}

fn placement_status(
    name: &str,
    deployments: &[&WorkloadDeployment],
    conditions: Vec<Condition>,
) -> WorkloadPlacementStatus {
    let sum = |counter: fn(&api::WorkloadDeploymentStatus) -> i32| {
        let counters = deployments
            .iter()
            .filter_map(|deployment| deployment.status.as_ref())
            .map(counter);
        counters.fold(0_i32, i32::saturating_add)
    };
    WorkloadPlacementStatus {
        conditions,
        current_replicas: sum(|status| status.current_replicas),
        desired_replicas: sum(|status| status.desired_replicas),
        name: name.to_owned(),
        ready_replicas: sum(|status| status.ready_replicas),
        replicas: sum(|status| status.replicas),
    }
}

fn placement_available(
    deployments: &[&WorkloadDeployment],
    refusal: Option<&String>,
    now: Timestamp,
) -> Condition {
    let available = |deployment: &&&WorkloadDeployment| {
        let status = deployment.status.as_ref();
        status.is_some_and(|status| {
            condition::is_true(&status.conditions, workload_deployment::AVAILABLE)
        })
    };
    match deployments.iter().find(available) {
        Some(deployment) => {
            let message = format!("{} is available", deployment.name_any());
            let message = match refusal {
                Some(refusal) => format!("{message}; {refusal}"),
                None => message,
            };
            Condition::new(
                AVAILABLE,
                ConditionStatus::True,
                reason::DEPLOYMENT_FOUND,
                message,
                now,
            )
        }
        None => {
            let message = match (refusal, deployments.first()) {
                (Some(refusal), _) => refusal.clone(),
                (None, Some(deployment)) => unavailability(deployment),
                (None, None) => "no deployment exists".to_owned(),
            };
            Condition::new(
                AVAILABLE,
                ConditionStatus::False,
                reason::NO_DEPLOYMENTS,
                message,
                now,
            )
        }
    }
}

/// Why a deployment is not available, in its own words.
fn unavailability(deployment: &WorkloadDeployment) -> String {
    let conditions = deployment
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let name = deployment.name_any();
    match condition::find(conditions, workload_deployment::AVAILABLE) {
        Some(Condition {
            reason, message, ..
        }) if message.is_empty() => format!("{name}: {reason}"),
        Some(Condition {
            reason, message, ..
        }) => format!("{name}: {reason}: {message}"),
        None => format!("{name}: no status yet"),
    }
}

fn workload_available(placements: &[WorkloadPlacementStatus], now: Timestamp) -> Condition {
    let available =
        |placement: &&WorkloadPlacementStatus| condition::is_true(&placement.conditions, AVAILABLE);
    match placements.iter().find(available) {
        Some(placement) => {
            let message = format!("placement {} is available", placement.name);
            Condition::new(
                AVAILABLE,
                ConditionStatus::True,
                reason::PLACEMENT_FOUND,
                message,
                now,
            )
        }
        None => {
            let message = placements.first().and_then(|placement| {
                let cause = condition::find(&placement.conditions, AVAILABLE)?;
                Some(format!("placement {}: {}", placement.name, cause.message))
            });
            let message = message.unwrap_or_default();
            Condition::new(
                AVAILABLE,
                ConditionStatus::False,
                reason::NO_PLACEMENTS,
                message,
                now,
            )
        }
    }
}
