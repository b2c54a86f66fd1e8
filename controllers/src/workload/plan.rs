//! Decides which WorkloadDeployments a Workload needs, and which status it gets.

mod needs;
mod observed;
mod status;

use std::sync::Arc;

use api::workload::WorkloadPlacement;
use api::workload_deployment::WorkloadReference;
use api::{
    UnknownFields, Workload, WorkloadDeployment, WorkloadDeploymentSpec, WorkloadStatus,
    finalizers, labels,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use crate::names;
use crate::objects::{
    StringMap, controller_uid, covers, describe_undecodable, has_finalizer, is_terminating,
};
use needs::{Gap, Needs, Obstacle};
pub(super) use observed::{Listed, Lookup, Observed};
pub(super) use status::{StatusReport, own_status, unlisted_status};

/// How many derived names are compared to find a WorkloadDeployment whose spec was edited. The first name is almost
/// always free, so a few names suffice.
const KNOWN_NAMES: usize = 4;

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    pub(super) delete: Vec<Arc<WorkloadDeployment>>,
    /// The metadata of WorkloadDeployments to delete that cannot be decoded.
    pub(super) delete_undecodable: Vec<ObjectMeta>,
    pub(super) apply: Vec<Desired>,
    /// The status to write if no write is rejected. `None` if the status does not change.
    pub(super) status: Option<WorkloadStatus>,
    pub(super) remove_finalizer: bool,
}

impl Plan {
    /// Returns whether the plan creates, changes or deletes WorkloadDeployments.
    pub(super) fn changes_deployments(&self) -> bool {
        !self.delete.is_empty() || !self.delete_undecodable.is_empty() || !self.apply.is_empty()
    }
}

/// The desired WorkloadDeployment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    /// The current WorkloadDeployment, if it exists.
    pub(super) existing: Option<Arc<WorkloadDeployment>>,
    pub(super) name: String,
    pub(super) labels: StringMap,
    /// The desired spec. Its `replicas` is `None`, because the Workload controller does not own this field.
    pub(super) spec: WorkloadDeploymentSpec,
}

/// Returns the actions and the report from which the status is rendered. The status of a terminating Workload is not
/// written, so it has no report.
pub(super) fn plan<'a>(observed: &Observed<'a>) -> (Plan, Option<StatusReport<'a>>) {
    let Observed {
        workload,
        own,
        undecodable,
        ..
    } = *observed;
    if is_terminating(workload) {
        return (finalize(observed), None);
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
    // A terminating WorkloadDeployment is left alone until it is gone, because its successor needs the same name.
    let is_as = |desired: &Desired| {
        let existing = desired.existing.as_deref();
        existing.is_some_and(|existing| {
            is_terminating(existing) || is_as_desired(existing, desired, &uid)
        })
    };
    // A city that is not offered needs no action, so it does not delay the observed generation.
    let in_step = undecodable.is_empty()
        && own.len() == desired.len()
        && desired.iter().all(is_as)
        && own.iter().all(|deployment| is_current(deployment))
        && gaps.iter().all(|gap| gap.obstacle == Obstacle::NotOffered);
    desired.retain(|desired| !is_as(desired));
    // If a Network does not exist, running WorkloadDeployments could not apply the template. So they are not changed.
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
        // Without its spec, it is not known whether the WorkloadDeployment is wanted.
        delete_undecodable: Vec::new(),
        apply: desired,
        status: report.changed_status(&StringMap::new()),
        remove_finalizer: false,
    };
    (plan, Some(report))
}

/// Returns the UID of the Workload of a WorkloadDeployment. This is the UID of the controller owner, because an edit of
/// the spec does not change it. Without a controller owner, it is the UID in the spec.
pub(crate) fn owner(deployment: &WorkloadDeployment) -> &str {
    controller_uid(deployment).unwrap_or(&deployment.spec.workload_ref.uid)
}

/// Deletes the WorkloadDeployments of the Workload. Removes the finalizer of the Workload when they are gone.
fn finalize(observed: &Observed<'_>) -> Plan {
    let Observed {
        workload,
        own,
        undecodable,
        ..
    } = *observed;
    if !has_finalizer(workload, finalizers::WORKLOAD_CONTROLLER) {
        return Plan::default();
    }
    Plan {
        delete: own
            .iter()
            .filter(|deployment| !is_terminating(deployment.as_ref()))
            .cloned()
            .collect(),
        delete_undecodable: undecodable
            .iter()
            .map(|invalid| invalid.metadata.clone())
            .filter(|metadata| metadata.deletion_timestamp.is_none())
            .collect(),
        remove_finalizer: own.is_empty() && undecodable.is_empty(),
        ..Plan::default()
    }
}

/// Returns one WorkloadDeployment per placement and city, in the order of the Workload, and the cities that get none
/// now. If a prerequisite for creation disappears, an existing WorkloadDeployment is still wanted.
fn desired<'a>(observed: &Observed<'a>, needs: &Needs<'_>) -> (Vec<Desired>, Vec<Gap<'a>>) {
    let Observed {
        workload,
        own,
        undecodable,
        is_taken,
        ..
    } = *observed;
    let workload_ref = WorkloadReference {
        name: workload.name_any(),
        uid: workload.uid().unwrap_or_default(),
        others: UnknownFields::default(),
    };
    let pairs = pairs(workload);
    let existing = existing(&workload_ref, &pairs, own);
    let mut desired: Vec<Desired> = Vec::new();
    let mut gaps = Vec::new();
    for ((placement, city), existing) in pairs.into_iter().zip(existing) {
        let obstacle = || {
            let names = known_names(&workload_ref, &placement.name, city);
            let obstacle = undecodable_with_name(undecodable, &names);
            obstacle.or_else(|| needs.obstacle(city))
        };
        if existing.is_none()
            && let Some(obstacle) = obstacle()
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
            // A new WorkloadDeployment gets a name that no object uses.
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
                others: UnknownFields::default(),
            },
        });
    }
    (desired, gaps)
}

/// Returns the obstacle of a WorkloadDeployment that cannot be decoded and has one of these names. Only its name
/// determines its placement and city.
fn undecodable_with_name(undecodable: &[Arc<InvalidObject>], names: &[String]) -> Option<Obstacle> {
    let mut undecodable = undecodable.iter();
    let found = undecodable.find(|invalid| {
        let name = invalid.metadata.name.as_ref();
        name.is_some_and(|name| names.contains(name))
    })?;
    Some(Obstacle::Undecodable(describe_undecodable::<
        WorkloadDeployment,
    >(found)))
}

/// Returns each pair of a placement and one of its cities once.
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

/// Returns the WorkloadDeployment of each placement and city, if it exists. The spec of a WorkloadDeployment determines
/// its placement and city. If the spec was edited, the name determines them.
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

/// Returns `<workload>-<placement>-<city>` if this name is free and valid (docs/concepts/identity.md). Otherwise
/// returns the same name with a hash, because two Workloads can have the same readable name.
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

/// Returns the names that are compared to find a WorkloadDeployment whose spec was edited.
fn known_names(workload: &WorkloadReference, placement: &str, city: &str) -> Vec<String> {
    let readable = readable_name(workload, placement, city);
    names::derived(&readable, &[&workload.uid, placement, city])
        .take(KNOWN_NAMES)
        .collect()
}

fn is_as_desired(existing: &WorkloadDeployment, desired: &Desired, workload_uid: &str) -> bool {
    own_spec(existing) == desired.spec
        && covers(existing.labels(), &desired.labels)
        && controller_uid(existing) == Some(workload_uid)
}

/// Returns the part of the spec that the Workload controller owns. Other controllers may own `replicas` and fields of
/// newer CRDs.
pub(super) fn own_spec(deployment: &WorkloadDeployment) -> WorkloadDeploymentSpec {
    let spec = deployment.spec.clone();
    WorkloadDeploymentSpec {
        replicas: None,
        workload_ref: WorkloadReference {
            others: UnknownFields::default(),
            ..spec.workload_ref
        },
        others: UnknownFields::default(),
        ..spec
    }
}

/// Returns whether the status of the WorkloadDeployment is about its current spec.
fn is_current(deployment: &WorkloadDeployment) -> bool {
    let observed = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    observed.is_some() && observed == deployment.metadata.generation
}

#[cfg(test)]
mod tests;
