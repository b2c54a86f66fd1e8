//! What a Workload needs: its deployments and its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::condition::{self, Condition, ConditionStatus};
use api::workload::{AVAILABLE, WorkloadPlacementStatus};
use api::workload_deployment::{self, WorkloadReference};
use api::{
    Workload, WorkloadDeployment, WorkloadDeploymentSpec, WorkloadStatus, finalizers, labels,
};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::names;
use crate::objects::{Keys, controller_uid, covers, has_finalizer, is_terminating};

/// Why a placement or a Workload is available (compute.md 1.1).
mod reason {
    pub(super) const DEPLOYMENT_FOUND: &str = "AvailableDeploymentFound";
    pub(super) const NO_DEPLOYMENTS: &str = "NoAvailableDeployments";
    pub(super) const PLACEMENT_FOUND: &str = "AvailablePlacementFound";
    pub(super) const NO_PLACEMENTS: &str = "NoAvailablePlacements";
}

/// What the controller sees.
pub(super) struct Observed<'a> {
    pub(super) workload: &'a Workload,
    /// All deployments in the Workload's namespace, whosoever's they are.
    pub(super) deployments: &'a [Arc<WorkloadDeployment>],
    pub(super) now: Timestamp,
}

/// What must be done, in this order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    pub(super) delete: Vec<Arc<WorkloadDeployment>>,
    pub(super) apply: Vec<Desired>,
    pub(super) status: Option<WorkloadStatus>,
    pub(super) remove_finalizer: bool,
}

/// A deployment as the Workload wants it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    /// The deployment as it is, if there is one.
    pub(super) existing: Option<Arc<WorkloadDeployment>>,
    pub(super) name: String,
    pub(super) labels: Keys,
    /// `replicas` is not the Workload's, and `None` here.
    pub(super) spec: WorkloadDeploymentSpec,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        workload,
        deployments,
        now,
    } = *observed;
    let uid = workload.uid().unwrap_or_default();
    let own: Vec<_> = deployments
        .iter()
        .filter(|deployment| deployment.spec.workload_ref.uid == uid)
        .cloned()
        .collect();
    if is_terminating(workload) {
        return finalize(workload, &own);
    }
    let desired = desired(workload, &own, deployments);
    let names: BTreeSet<_> = desired
        .iter()
        .map(|desired| desired.name.as_str())
        .collect();
    let delete: Vec<_> = own
        .iter()
        .filter(|deployment| !names.contains(deployment.name_any().as_str()))
        .filter(|deployment| !is_terminating(deployment.as_ref()))
        .cloned()
        .collect();
    // One that is terminating is waited for: its successor can only be made when it is gone.
    let is_as = |desired: &Desired| {
        let existing = desired.existing.as_deref();
        existing.is_some_and(|existing| {
            is_terminating(existing) || is_as_desired(existing, desired, &uid)
        })
    };
    let in_step = own.len() == desired.len()
        && desired.iter().all(is_as)
        && own.iter().all(|deployment| is_current(deployment));
    let status = status(workload, &own, in_step, now);
    Plan {
        add_finalizer: !has_finalizer(workload, finalizers::WORKLOAD_CONTROLLER),
        delete,
        apply: desired
            .into_iter()
            .filter(|desired| !is_as(desired))
            .collect(),
        status: (workload.status.as_ref() != Some(&status)).then_some(status),
        remove_finalizer: false,
    }
}

/// Deletes the deployments and releases the Workload when they are gone.
fn finalize(workload: &Workload, own: &[Arc<WorkloadDeployment>]) -> Plan {
    if !has_finalizer(workload, finalizers::WORKLOAD_CONTROLLER) {
        return Plan::default();
    }
    Plan {
        delete: own
            .iter()
            .filter(|deployment| !is_terminating(deployment.as_ref()))
            .cloned()
            .collect(),
        remove_finalizer: own.is_empty(),
        ..Plan::default()
    }
}

/// A deployment per placement and city, in the order of the Workload.
fn desired(
    workload: &Workload,
    own: &[Arc<WorkloadDeployment>],
    all: &[Arc<WorkloadDeployment>],
) -> Vec<Desired> {
    let workload_ref = WorkloadReference {
        name: workload.name_any(),
        uid: workload.uid().unwrap_or_default(),
    };
    // A name that is in use stays with whom it belongs to.
    let mut taken: BTreeSet<String> = all.iter().map(|deployment| deployment.name_any()).collect();
    let mut seen = BTreeSet::new();
    let mut desired = Vec::new();
    for placement in &workload.spec.placements {
        for city in &placement.city_codes {
            if !seen.insert((&placement.name, city)) {
                continue;
            }
            let existing = own.iter().find(|deployment| {
                deployment.spec.placement_name == placement.name
                    && deployment.spec.city_code == *city
            });
            let name = match existing {
                Some(existing) => existing.name_any(),
                None => new_name(&workload_ref, &placement.name, city, &taken),
            };
            taken.insert(name.clone());
            desired.push(Desired {
                existing: existing.cloned(),
                name,
                labels: Keys::from([
                    (labels::WORKLOAD_UID.to_owned(), workload_ref.uid.clone()),
                    (
                        labels::WORKLOAD_NAME.to_owned(),
                        names::label_value(&workload_ref.name),
                    ),
                    (
                        labels::PLACEMENT_NAME.to_owned(),
                        names::label_value(&placement.name),
                    ),
                ]),
                spec: WorkloadDeploymentSpec {
                    city_code: city.clone(),
                    placement_name: placement.name.clone(),
                    replicas: None,
                    scale_settings: placement.scale_settings.clone(),
                    template: workload.spec.template.clone(),
                    workload_ref: workload_ref.clone(),
                },
            });
        }
    }
    desired
}

/// `<workload>-<placement>-<city>` (compute.md 2.8) where that is free and a valid name, else with a hash behind it: two
/// Workloads can lead to the same readable name (I-27).
fn new_name(
    workload: &WorkloadReference,
    placement: &str,
    city: &str,
    taken: &BTreeSet<String>,
) -> String {
    let readable = format!("{}-{placement}-{}", workload.name, city.to_lowercase());
    if names::is_name_and_label(&readable) && !taken.contains(&readable) {
        return readable;
    }
    names::with_hash(&readable, &names::hash(&[&workload.uid, placement, city]))
}

fn is_as_desired(existing: &WorkloadDeployment, desired: &Desired, workload_uid: &str) -> bool {
    let spec = WorkloadDeploymentSpec {
        replicas: None,
        ..existing.spec.clone()
    };
    spec == desired.spec
        && covers(existing.labels(), &desired.labels)
        && controller_uid(existing) == Some(workload_uid)
}

/// Whether the deployment's status speaks of its current spec.
fn is_current(deployment: &WorkloadDeployment) -> bool {
    let observed = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    observed.is_some() && observed == deployment.metadata.generation
}

/// Sums over all deployments, with one entry per placement: those of the spec in its order, then those that are going.
/// `in_step` says that the deployments are as the Workload's current generation wants them and have acted on it.
fn status(
    workload: &Workload,
    own: &[Arc<WorkloadDeployment>],
    in_step: bool,
    now: Timestamp,
) -> WorkloadStatus {
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

    let observed = |former: &[Condition]| match in_step {
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
            let available = placement_available(&deployments, now).observed(observed(&conditions));
            condition::set(&mut conditions, available);
            placement_status(name, &deployments, conditions)
        })
        .collect();

    let mut conditions = former.conditions;
    let available = workload_available(&placements, now).observed(observed(&conditions));
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
        gateway: former.gateway,
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

fn placement_available(deployments: &[&WorkloadDeployment], now: Timestamp) -> Condition {
    let available = |deployment: &&&WorkloadDeployment| {
        let status = deployment.status.as_ref();
        status.is_some_and(|status| {
            condition::is_true(&status.conditions, workload_deployment::AVAILABLE)
        })
    };
    match deployments.iter().find(available) {
        Some(deployment) => {
            let message = format!("{} is available", deployment.name_any());
            Condition::new(
                AVAILABLE,
                ConditionStatus::True,
                reason::DEPLOYMENT_FOUND,
                message,
                now,
            )
        }
        None => {
            let message = match deployments.first() {
                Some(deployment) => unavailability(deployment),
                None => "no deployment exists".to_owned(),
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

#[cfg(test)]
mod tests;
