//! What a Workload needs: its deployments and its status.

mod needs;
mod observed;
mod status;

use std::sync::Arc;

use api::workload::WorkloadPlacement;
use api::workload_deployment::WorkloadReference;
use api::{
    Workload, WorkloadDeployment, WorkloadDeploymentSpec, WorkloadStatus, finalizers, labels,
};
use kube::ResourceExt;

use crate::names;
use crate::objects::{StringMap, controller_uid, covers, has_finalizer, is_terminating};
use needs::{Gap, Needs, Obstacle};
pub(super) use observed::{Listed, Lookup, Observed};
pub(super) use status::{StatusReport, own_status};

/// How many of its derived names a deployment is known by whose spec was edited. Hardly ever is more than the first taken.
const KNOWN_NAMES: usize = 4;

/// What must be done, in this order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    pub(super) delete: Vec<Arc<WorkloadDeployment>>,
    pub(super) apply: Vec<Desired>,
    /// The status, if it changes, where no write is refused.
    pub(super) status: Option<WorkloadStatus>,
    pub(super) remove_finalizer: bool,
}

/// A deployment as the Workload wants it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    /// The deployment as it is, if there is one.
    pub(super) existing: Option<Arc<WorkloadDeployment>>,
    pub(super) name: String,
    pub(super) labels: StringMap,
    /// `replicas` is not the Workload's, and `None` here.
    pub(super) spec: WorkloadDeploymentSpec,
}

/// Returns what must be done, and what the status is rendered from. While a Workload is terminating, its status stays.
pub(super) fn plan<'a>(observed: &Observed<'a>) -> (Plan, Option<StatusReport<'a>>) {
    let Observed { workload, own, .. } = *observed;
    if is_terminating(workload) {
        return (finalize(workload, own), None);
    }
    let uid = workload.uid().unwrap_or_default();
    let needs = Needs::new(observed);
    let (mut desired, gaps) = desired(observed, &needs);
    let is_wanted = |deployment: &WorkloadDeployment| {
        let name = deployment.name_any();
        desired.iter().any(|desired| desired.name == name)
    };
    let mut delete = own.to_vec();
    delete.retain(|deployment| !is_wanted(deployment) && !is_terminating(deployment.as_ref()));
    // One that is terminating is waited for: its successor can only be made when it is gone.
    let is_as = |desired: &Desired| {
        let existing = desired.existing.as_deref();
        existing.is_some_and(|existing| {
            is_terminating(existing) || is_as_desired(existing, desired, &uid)
        })
    };
    // A city that is not offered has been acted on: there is nothing to do.
    let in_step = own.len() == desired.len()
        && desired.iter().all(is_as)
        && own.iter().all(|deployment| is_current(deployment))
        && gaps.iter().all(|gap| gap.obstacle == Obstacle::NotOffered);
    desired.retain(|desired| !is_as(desired));
    // What runs could not follow a template whose Networks do not exist.
    if needs.missing_networks().is_some() || needs.was_missing() {
        delete.clear();
        desired.clear();
    }
    let report = StatusReport {
        observed: *observed,
        needs,
        gaps,
        in_step,
    };
    let plan = Plan {
        add_finalizer: !has_finalizer(workload, finalizers::WORKLOAD_CONTROLLER),
        delete,
        apply: desired,
        status: report.changed_status(&StringMap::new()),
        remove_finalizer: false,
    };
    (plan, Some(report))
}

/// UID of the Workload that a deployment belongs to: its controller's, whatever has become of its spec, or, where it has
/// none, that in its spec.
pub(crate) fn owner(deployment: &WorkloadDeployment) -> &str {
    controller_uid(deployment).unwrap_or(&deployment.spec.workload_ref.uid)
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

/// A deployment per placement and city, in the order of the Workload, and the cities that get none now. One that exists is
/// wanted whatever has become of what it needed.
fn desired<'a>(observed: &Observed<'a>, needs: &Needs<'_>) -> (Vec<Desired>, Vec<Gap<'a>>) {
    let Observed {
        workload,
        own,
        is_taken,
        ..
    } = *observed;
    let workload_ref = WorkloadReference {
        name: workload.name_any(),
        uid: workload.uid().unwrap_or_default(),
    };
    let pairs = pairs(workload);
    let existing = existing(&workload_ref, &pairs, own);
    let mut desired: Vec<Desired> = Vec::new();
    let mut gaps = Vec::new();
    for ((placement, city), existing) in pairs.into_iter().zip(existing) {
        if existing.is_none()
            && let Some(obstacle) = needs.obstacle(city)
        {
            let placement = &placement.name;
            gaps.push(Gap {
                placement,
                city,
                obstacle,
            });
            continue;
        }
        let name = match existing {
            Some(existing) => existing.name_any(),
            // A name that is in use stays with whom it belongs to.
            None => new_name(&workload_ref, &placement.name, city, &|name| {
                is_taken(name) || desired.iter().any(|other| other.name == name)
            }),
        };
        desired.push(Desired {
            existing: existing.cloned(),
            name,
            labels: StringMap::from([
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
    (desired, gaps)
}

/// Each placement with each of its cities, once.
fn pairs(workload: &Workload) -> Vec<(&WorkloadPlacement, &String)> {
    let mut pairs: Vec<(&WorkloadPlacement, &String)> = Vec::new();
    for placement in &workload.spec.placements {
        for city in &placement.city_codes {
            if pairs
                .iter()
                .all(|(other, of)| (&other.name, *of) != (&placement.name, city))
            {
                pairs.push((placement, city));
            }
        }
    }
    pairs
}

/// The deployment of each placement and city, where there is one. What it says it is for decides; one whose spec was
/// edited is known by its name.
fn existing<'a>(
    workload: &WorkloadReference,
    pairs: &[(&WorkloadPlacement, &String)],
    own: &'a [Arc<WorkloadDeployment>],
) -> Vec<Option<&'a Arc<WorkloadDeployment>>> {
    let mut free: Vec<_> = own.iter().collect();
    let mut take = |is_it: &dyn Fn(&WorkloadDeployment) -> bool| {
        let index = free.iter().position(|deployment| is_it(deployment))?;
        Some(free.remove(index))
    };
    let by_spec: Vec<_> = pairs
        .iter()
        .map(|(placement, city)| {
            let says_so = |deployment: &WorkloadDeployment| {
                deployment.spec.placement_name == placement.name
                    && deployment.spec.city_code == **city
            };
            let names = known_names(workload, &placement.name, city);
            let named_so = |deployment: &WorkloadDeployment| names.contains(&deployment.name_any());
            take(&|deployment| says_so(deployment) && named_so(deployment))
                .or_else(|| take(&says_so))
        })
        .collect();
    by_spec
        .into_iter()
        .zip(pairs)
        .map(|(found, (placement, city))| {
            let names = known_names(workload, &placement.name, city);
            found.or_else(|| take(&|deployment| names.contains(&deployment.name_any())))
        })
        .collect()
}

/// `<workload>-<placement>-<city>` (compute.md 2.8) where that is free and a valid name, else with a hash behind it: two
/// Workloads can lead to the same readable name.
fn new_name(
    workload: &WorkloadReference,
    placement: &str,
    city: &str,
    is_taken: &dyn Fn(&str) -> bool,
) -> String {
    let readable = readable_name(workload, placement, city);
    names::first_free(&readable, &[&workload.uid, placement, city], is_taken)
}

fn readable_name(workload: &WorkloadReference, placement: &str, city: &str) -> String {
    format!("{}-{placement}-{}", workload.name, city.to_lowercase())
}

/// The names by which a deployment is known whose spec was edited.
fn known_names(workload: &WorkloadReference, placement: &str, city: &str) -> Vec<String> {
    let readable = readable_name(workload, placement, city);
    names::derived(&readable, &[&workload.uid, placement, city])
        .take(KNOWN_NAMES)
        .collect()
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

#[cfg(test)]
mod tests;
