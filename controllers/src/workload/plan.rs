//! Decides which WorkloadDeployments a Workload needs, and which status it gets.

mod desired;
mod needs;
mod observed;
mod shortage;
mod size;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::workload::WorkloadPlacement;
use api::workload_deployment::WorkloadReference;
use api::{UnknownFields, Workload, WorkloadDeployment, WorkloadStatus, finalizers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use crate::names;
use crate::objects::{
    StringMap, controller_uid, describe_undecodable, has_finalizer, is_terminating,
};
pub(super) use desired::Desired;
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
    let needs = Needs::new(observed);
    let (mut desired, gaps) = desired(observed, &needs);
    let wanted: BTreeSet<_> = desired
        .iter()
        .map(|desired| desired.name.as_str())
        .collect();
    let mut delete = own.to_vec();
    delete.retain(|it| !wanted.contains(name_of(it)) && !is_terminating(it.as_ref()));
    // A terminating WorkloadDeployment is left alone until it is gone, because its successor needs the same name.
    let is_as = |desired: &Desired| {
        let existing = desired.existing.as_deref();
        existing.is_some_and(|existing| {
            is_terminating(existing) || desired.is_written(workload, existing)
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
    if needs.missing_networks().is_some() || needs.was_missing() || needs.excess().is_some() {
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
    if needs.excess().is_some() {
        return (Vec::new(), Vec::new());
    }
    let workload_ref = WorkloadReference {
        name: workload.name_any(),
        uid: workload.uid().unwrap_or_default(),
        others: UnknownFields::default(),
    };
    let pairs = pairs(workload);
    let existing = existing(&workload_ref, &pairs, own);
    let undecodable: BTreeMap<_, _> = undecodable
        .iter()
        .filter_map(|invalid| Some((invalid.metadata.name.as_deref()?, invalid.as_ref())))
        .collect();
    let mut desired: Vec<Desired> = Vec::new();
    let mut names = BTreeSet::new();
    let mut gaps = Vec::new();
    for (pair, existing) in pairs.into_iter().zip(existing) {
        let Pair {
            placement, city, ..
        } = pair;
        let obstacle = || {
            let names = known_names(&workload_ref, &placement.name, city);
            let obstacle = undecodable_with_name(&undecodable, &names);
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
                is_taken(name) || names.contains(name)
            }),
        };
        names.insert(name.clone());
        desired.push(Desired {
            existing: existing.cloned(),
            name,
            city: city.clone(),
            placement: pair.shared,
        });
    }
    (desired, gaps)
}

/// Returns the obstacle of a WorkloadDeployment that cannot be decoded and has one of these names. Only its name
/// determines its placement and city.
fn undecodable_with_name(
    undecodable: &BTreeMap<&str, &InvalidObject>,
    names: &[String],
) -> Option<Obstacle> {
    let found = names
        .iter()
        .find_map(|name| undecodable.get(name.as_str()))?;
    Some(Obstacle::Undecodable(describe_undecodable::<
        WorkloadDeployment,
    >(found)))
}
/// A placement of the Workload and one of its cities.
struct Pair<'a> {
    placement: &'a WorkloadPlacement,
    /// A copy of the placement, shared by all its cities.
    shared: Arc<WorkloadPlacement>,
    city: &'a String,
}

/// Returns each pair of a placement and one of its cities once.
fn pairs(workload: &Workload) -> Vec<Pair<'_>> {
    let mut known = BTreeSet::new();
    let mut pairs = Vec::new();
    for placement in &workload.spec.placements {
        let shared = Arc::new(placement.clone());
        let mut cities: Vec<_> = placement.city_codes.iter().collect();
        cities.retain(|city| known.insert((placement.name.as_str(), city.as_str())));
        pairs.extend(cities.into_iter().map(|city| Pair {
            placement,
            shared: Arc::clone(&shared),
            city,
        }));
    }
    pairs
}

/// Returns the WorkloadDeployment of each pair, if it exists. The spec of a WorkloadDeployment determines its placement
/// and city. If the spec was edited, the name determines them.
fn existing<'a>(
    workload: &WorkloadReference,
    pairs: &[Pair<'_>],
    own: &'a [Arc<WorkloadDeployment>],
) -> Vec<Option<&'a Arc<WorkloadDeployment>>> {
    let mut by_spec: BTreeMap<(&str, &str), Vec<&Arc<WorkloadDeployment>>> = BTreeMap::new();
    let mut free = BTreeMap::new();
    for (index, deployment) in own.iter().enumerate() {
        let spec = &deployment.spec;
        let of_pair = by_spec.entry((&spec.placement_name, &spec.city_code));
        of_pair.or_default().push(deployment);
        free.insert(name_of(deployment), (index, deployment));
    }
    let mut found = Vec::new();
    for Pair {
        placement, city, ..
    } in pairs
    {
        let candidates = by_spec.get(&(placement.name.as_str(), city.as_str()));
        let candidates = candidates.map_or(&[][..], Vec::as_slice);
        let names = known_names(workload, &placement.name, city);
        let with_name = candidates
            .iter()
            .find(|it| names.iter().any(|name| name == name_of(it)));
        let of_pair = with_name.or_else(|| candidates.first()).copied();
        if let Some(of_pair) = of_pair {
            free.remove(name_of(of_pair));
        }
        found.push((of_pair, names));
    }
    let by_name = found.into_iter().map(|(of_pair, names)| {
        of_pair.or_else(|| {
            let with_name = names.iter().filter_map(|name| free.get(name.as_str()));
            let (_, first) = *with_name.min_by_key(|(index, _)| *index)?;
            free.remove(name_of(first));
            Some(first)
        })
    });
    by_name.collect()
}

fn name_of(deployment: &WorkloadDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
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
