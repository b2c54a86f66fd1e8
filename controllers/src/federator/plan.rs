//! Decides how a WorkloadDeployment of a project is copied to the hub, and which status it gets in the project.

pub(super) mod ending;
pub(super) mod freshness;
pub(super) mod orphan;
pub(super) mod status;
mod upstream_generation;

use std::sync::Arc;
use std::time::Duration;

use api::{
    CityCode, HubNamespace, ProjectName, WorkloadDeployment, WorkloadDeploymentSpec,
    WorkloadDeploymentStatus, annotations, finalizers, labels,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::override_failures::KnownLack;
use super::reapply::staleness::{Staleness, staleness};
use crate::hub::cells::CopyCells;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::hub::upstream::Upstream;
use crate::objects::{
    Namespace, StringMap, covers, describe, has_finalizer, is_terminating, label,
    recorded_hub_namespace,
};
use crate::referenced_data::version::MeantVersions;
use crate::runtime::ReconcileError;
use crate::template::template_hash;
use ending::{Ending, EndingStep};
use freshness::fresh;
use status::{
    HUB_CONTRADICTED, HUB_NAMESPACE_CONTRADICTED, contradicted, invalid_city_code, status,
    unreported, with_former_counters, with_former_rules, with_override_failure,
};
use upstream_generation::{Carried, carried, carried_annotations};

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) project: &'a ProjectName,
    /// The WorkloadDeployment of the project.
    pub(super) deployment: &'a WorkloadDeployment,
    /// The hub namespace that the WorkloadDeployment has recorded. Without a record, the hub namespace derived from the
    /// project's Namespace.
    pub(super) hub_namespace: &'a HubNamespace,
    /// The hub namespace derived from the UID of the project's Namespace, if that Namespace is in the cache.
    pub(super) derived: Option<&'a HubNamespace>,
    /// UID of the project's namespace `default`, which identifies its API server.
    pub(super) cluster_uid: Option<&'a str>,
    /// UID that identifies the Milo root of the project.
    pub(super) root_uid: Option<&'a str>,
    /// The identity of the hub in use.
    pub(super) hub: &'a HubIdentity,
    /// The reason why the hub in use is that of another installation, if it is.
    pub(super) other_hub: Option<String>,
    /// The reason why a new WorkloadDeployment must wait, if there is one: another WorkloadDeployment of the project is
    /// not proved to be on this hub.
    pub(super) neighbour: Option<String>,
    /// The hub namespace.
    pub(super) namespace: Option<&'a Namespace>,
    /// The WorkloadDeployment of the same name in the hub namespace.
    pub(super) copy: Option<&'a Arc<WorkloadDeployment>>,
    /// Whether a PropagationPolicy on the hub selects this city code.
    pub(super) policy_exists: bool,
    /// What is known about the cells that lack the copy.
    pub(super) lack: KnownLack,
    /// The binding of the copy and the reachability of its cells.
    pub(super) cells: CopyCells<'a>,
    pub(super) now: Timestamp,
}

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Record the hub and the hub namespace on the project's WorkloadDeployment, in the same write as the finalizer.
    pub(super) record: bool,
    pub(super) apply_namespace: Option<DesiredNamespace>,
    pub(super) apply_copy: Option<DesiredCopy>,
    /// Delete the copy after the project's API server has confirmed the WorkloadDeployment. If the copy must be applied
    /// too, delete it only if the hub refuses this change.
    pub(super) delete_copy: bool,
    /// The message about the cells in which Instances may run after the deletion.
    pub(super) may_remain: Option<String>,
    /// When to look at the cells of a terminating WorkloadDeployment again, if nothing changes.
    pub(super) look_again: Option<Duration>,
    pub(super) status: Option<WorkloadDeploymentStatus>,
    /// The cells that lack the copy or its namespace. If they lack it for too long, the federator makes Karmada apply
    /// the object again.
    pub(super) staleness: Staleness,
    /// Remove the finalizer after the hub has confirmed that the copy is gone.
    pub(super) release: bool,
    /// A contradiction between objects. Until an administrator has resolved it, the federator writes only the status.
    pub(super) hold: Option<Hold>,
}

/// A contradiction, for which a WorkloadDeployment is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The reason of `Available`.
    pub(super) reason: &'static str,
    /// The message of `Available`.
    pub(super) problem: String,
}

/// The desired hub namespace.
#[derive(Debug, PartialEq)]
pub(super) struct DesiredNamespace {
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
}

impl DesiredNamespace {
    pub(super) fn is(&self, namespace: &Namespace) -> bool {
        covers(namespace.labels(), &self.labels)
            && covers(namespace.annotations(), &self.annotations)
    }
}

/// The desired copy on the hub.
#[derive(Debug, PartialEq)]
pub(super) struct DesiredCopy {
    pub(super) spec: WorkloadDeploymentSpec,
    /// Whether the project's API server must confirm the WorkloadDeployment first, because the cache may be behind.
    pub(super) needs_confirmation: bool,
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
}

/// Returns whether both have the same mirrored annotations (I-19). Without the annotation of expected data, the expected
/// data are not determined yet. An empty list means that no data are needed.
pub(super) fn same_mirrored(annotations: &StringMap, wanted: &StringMap) -> bool {
    let keys = annotations::MIRRORED.iter();
    keys.copied()
        .all(|key| annotations.get(key) == wanted.get(key))
}

/// Returns the annotations of the project that the copy must have. The versions of referenced data are left out if they
/// were determined for a former template: the cell must not take data that are older than the template.
fn mirrored(deployment: &WorkloadDeployment) -> StringMap {
    let mut mirrored = deployment.annotations().clone();
    mirrored.retain(|key, _| annotations::MIRRORED.contains(&key.as_str()));
    if mirrored.contains_key(annotations::REFERENCED_DATA_VERSIONS) {
        let meant = MeantVersions::of(&deployment.metadata);
        if meant.is_none_or(|meant| meant.template != template_hash(deployment)) {
            mirrored.remove(annotations::REFERENCED_DATA_VERSIONS);
        }
    }
    mirrored
}

/// Returns the hub namespace derived from the UID of a project's Namespace with this metadata.
pub(super) fn derived(
    deployment: &WorkloadDeployment,
    namespace: Option<&ObjectMeta>,
) -> Result<Option<HubNamespace>, ReconcileError> {
    let uid = namespace.and_then(|namespace| namespace.uid.as_deref());
    uid.map(HubNamespace::of_project_namespace)
        .transpose()
        .map_err(ReconcileError::identity(describe(deployment)))
}

/// Returns the hub namespace of a WorkloadDeployment: the recorded one, or else the derived one. The finalization of a
/// recorded WorkloadDeployment reads no other object to find the hub namespace (I-9). Returns `None` if the
/// WorkloadDeployment is terminating and has neither a record nor our finalizer.
pub(super) fn hub_namespace(
    deployment: &WorkloadDeployment,
    derived: Option<&HubNamespace>,
) -> Result<Option<HubNamespace>, ReconcileError> {
    let recorded = recorded_hub_namespace(deployment.meta());
    if let Some(recorded) = recorded {
        let recorded = HubNamespace::new(recorded);
        return recorded
            .map(Some)
            .map_err(ReconcileError::identity(describe(deployment)));
    }
    if is_terminating(deployment) && !has_finalizer(deployment, finalizers::FEDERATOR) {
        return Ok(None);
    }
    match derived {
        Some(derived) => Ok(Some(derived.clone())),
        None => Err(ReconcileError::NotYet {
            object: describe(deployment),
            missing: "its Namespace on the project plane".to_owned(),
        }),
    }
}

/// Returns the contradiction in the identity of the hub namespace, if there is one. A customer can edit the record, and
/// an edited record must not lead to a hub namespace of another project. The customer reads the message, so the message
/// does not name the other project.
fn contradiction(observed: &Observed<'_>) -> Option<String> {
    let Observed {
        deployment,
        hub_namespace,
        derived,
        namespace,
        copy,
        ..
    } = *observed;
    let terminating = is_terminating(deployment);
    let upstream = upstream(observed);
    let record = annotations::FEDERATION_NAMESPACE;
    let is_of_another = |namespace: &Namespace| upstream.is_contradicted_by(namespace.meta());
    if namespace.is_some_and(is_of_another) {
        return Some(format!(
            "the labels of hub namespace {hub_namespace} identify another project or namespace"
        ));
    }
    // A terminating WorkloadDeployment uses its recorded hub namespace if that namespace still exists.
    let others = derived.filter(|derived| *derived != hub_namespace);
    if let (Some(derived), true) = (others, !terminating || namespace.is_none()) {
        return Some(format!(
            "annotation {record} is {hub_namespace}, but the hub namespace of its Namespace is {derived}"
        ));
    }
    let unproved = namespace.is_some() || copy.is_some();
    (terminating && unproved && !upstream.is_proved_by(namespace)).then(|| {
        format!(
            "the labels of hub namespace {hub_namespace} do not identify this project and namespace"
        )
    })
}

/// Returns the reason why the hub in use may not be the hub that has the copy, if there is a reason. A
/// WorkloadDeployment without a finalizer and without a record has never had a copy.
fn hub_contradiction(observed: &Observed<'_>) -> Option<String> {
    let Observed {
        deployment,
        namespace,
        hub,
        ..
    } = *observed;
    let record = recorded_hub(deployment.meta());
    let is_new = record.is_none() && !has_finalizer(deployment, finalizers::FEDERATOR);
    let problem = match is_new {
        true => hub
            .contradiction(hub.uid(), namespace)
            .or_else(|| observed.neighbour.clone()),
        false => hub.contradiction(record, namespace),
    };
    problem.or_else(|| observed.other_hub.clone())
}

fn upstream(observed: &Observed<'_>) -> Upstream {
    Upstream {
        project: observed.project.clone(),
        namespace: observed.deployment.namespace().unwrap_or_default(),
    }
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        deployment, copy, ..
    } = *observed;
    let terminating = is_terminating(deployment);
    if terminating && !has_finalizer(deployment, finalizers::FEDERATOR) {
        return Plan::default();
    }
    let because = |reason| move |problem| Hold { reason, problem };
    let held = contradiction(observed)
        .map(because(HUB_NAMESPACE_CONTRADICTED))
        .or_else(|| hub_contradiction(observed).map(because(HUB_CONTRADICTED)));
    if let Some(hold) = held {
        let status = contradicted(deployment, hold.reason, &hold.problem, observed.now);
        return Plan {
            status: (deployment.status.as_ref() != Some(&status)).then_some(status),
            hold: Some(hold),
            ..Plan::default()
        };
    }
    if terminating {
        return match copy {
            Some(copy) if is_terminating(copy.as_ref()) => Plan::default(),
            Some(copy) => end(observed, copy),
            None => Plan {
                release: true,
                ..Plan::default()
            },
        };
    }
    match CityCode::new(deployment.spec.city_code.as_str()) {
        Ok(city) => federate(observed, &city),
        Err(error) => {
            let status = invalid_city_code(deployment, &error, observed.now);
            Plan {
                status: (deployment.status.as_ref() != Some(&status)).then_some(status),
                ..Plan::default()
            }
        }
    }
}

/// Ends a terminating WorkloadDeployment. The copy is deleted when the cells have ended its Instances, or when they are
/// not waited for any longer.
fn end(observed: &Observed<'_>, copy: &WorkloadDeployment) -> Plan {
    let Observed {
        deployment,
        cells,
        now,
        ..
    } = *observed;
    let since = deployment.metadata.deletion_timestamp.as_ref();
    let since = since.map_or(Timestamp::MIN, |since| since.0);
    let ending = Ending::of(copy, cells, since, now);
    let (asks, waits) = (
        ending.step == EndingStep::Ask,
        ending.step == EndingStep::Wait,
    );
    let reported = || {
        copy.status.as_ref()?;
        current_status(observed, copy.is_ending())
    };
    Plan {
        apply_copy: asks.then(|| ending_copy(observed, copy)),
        delete_copy: ending.step == EndingStep::Delete || asks && ending.is_late,
        may_remain: ending.may_remain().map(str::to_owned),
        look_again: ending.look_again,
        staleness: match waits {
            true => staleness(copy, cells),
            false => Staleness::default(),
        },
        status: ending.changed_status(deployment, reported, now),
        ..Plan::default()
    }
}

/// Returns the copy with which the cells end the Instances. If the spec had instances, the generation of the copy changes,
/// and a report of a cell says whether the cell has acted on it.
fn ending_copy(observed: &Observed<'_>, copy: &WorkloadDeployment) -> DesiredCopy {
    let mut annotations = mirrored(observed.deployment);
    annotations.extend(carried_annotations(observed.deployment));
    annotations.insert(
        annotations::ENDING.to_owned(),
        format!("{:.0}", observed.now),
    );
    DesiredCopy {
        needs_confirmation: true,
        spec: copy.spec.without_instances(),
        labels: copy_labels(observed.deployment, &copy.spec.city_code),
        annotations,
    }
}

fn copy_labels(deployment: &WorkloadDeployment, city: &str) -> StringMap {
    StringMap::from([
        (labels::CITY_CODE.to_owned(), city.to_owned()),
        (
            labels::UPSTREAM_NAMESPACE.to_owned(),
            deployment.namespace().unwrap_or_default(),
        ),
    ])
}

/// Returns the status of the copy, with the state of its cells, for the project. `in_step` is true if the copy has what
/// the project wants.
fn current_status(observed: &Observed<'_>, in_step: bool) -> Option<WorkloadDeploymentStatus> {
    let Observed {
        deployment,
        copy,
        cells,
        now,
        ..
    } = *observed;
    let copy = copy?;
    let shown = deployment.status.as_ref();
    let shown = shown.map_or(&[][..], |status| &status.conditions);
    let fresh = fresh(copy, cells, shown, now);
    let fresh = fresh.map(|fresh| match copy.status {
        Some(_) => fresh,
        None => with_former_counters(fresh, deployment.status.as_ref()),
    });
    match fresh.as_ref().or(copy.status.as_ref()) {
        Some(hub) => Some(status(deployment, copy, hub, in_step)),
        None => deployment
            .status
            .clone()
            .map(|former| unreported(former, now)),
    }
}

fn federate(observed: &Observed<'_>, city: &CityCode) -> Plan {
    let Observed {
        deployment,
        hub_namespace,
        namespace,
        copy,
        policy_exists,
        cells,
        hub,
        now,
        ..
    } = *observed;
    let recorded = recorded_hub_namespace(deployment.meta());
    let desired_namespace = desired_namespace(observed);
    let copy_labels = copy_labels(deployment, city.as_str());
    let mut copy_annotations = mirrored(deployment);
    copy_annotations.extend(carried_annotations(deployment));
    let is_mirrored =
        |copy: &WorkloadDeployment| same_mirrored(copy.annotations(), &copy_annotations);
    let copy_is_as_desired = |copy: &WorkloadDeployment| {
        copy.spec == deployment.spec
            && covers(copy.labels(), &copy_labels)
            && is_mirrored(copy)
            && !copy.is_ending()
    };
    let record = !has_finalizer(deployment, finalizers::FEDERATOR)
        || recorded != Some(hub_namespace.as_str())
        || recorded_hub(deployment.meta()) != hub.uid();
    let carried = copy.map(|copy| carried(copy, deployment));
    let in_step = copy.is_some_and(|copy| copy_is_as_desired(copy));
    let status = current_status(observed, in_step);
    let live = copy.filter(|copy| !is_terminating(copy.as_ref()));
    // If this reconciliation applies the copy, Karmada writes the object anyway, so no cell counts as stale.
    let staleness = match live.filter(|_| in_step) {
        Some(copy) => staleness(copy, cells),
        None => Staleness::default(),
    };
    // While the copy is out of step, it is not known which cells will lack it.
    let lacking = in_step.then_some(&staleness.cells);
    let status = match copy {
        Some(_) => {
            let failure = observed.lack.override_failure.as_deref();
            let status = with_override_failure(status, deployment, lacking, failure, now);
            let former_rules = &staleness.former_rules;
            status.map(|it| {
                with_former_rules(it, deployment, former_rules, observed.lack.is_late, now)
            })
        }
        None => status,
    };
    let moves = live.is_some_and(|copy| is_of_another_city(copy, city));
    // A terminating copy must be gone before a new copy is created. A new copy is created only after its policy. If the
    // copy were older than its policy, Karmada might match the copy only much later.
    let apply_copy = match copy {
        Some(_) => {
            let is_as_desired = in_step && !carried.is_some_and(Carried::must_be_written);
            !is_as_desired && !moves && live.is_some()
        }
        None => policy_exists,
    };
    let needs_confirmation = match carried.zip(copy) {
        // The generation does not cover the mirrored annotations.
        Some((carried, copy)) => carried.needs_confirmation(copy, deployment) || !is_mirrored(copy),
        // The project may have deleted the WorkloadDeployment. The record is written only to its current version.
        None => !record,
    };
    Plan {
        record,
        apply_namespace: (!namespace.is_some_and(|namespace| desired_namespace.is(namespace)))
            .then_some(desired_namespace),
        // The spec may be large, so it is copied only if it is written.
        apply_copy: apply_copy.then(|| DesiredCopy {
            needs_confirmation,
            spec: deployment.spec.clone(),
            labels: copy_labels,
            annotations: copy_annotations,
        }),
        delete_copy: moves && upstream(observed).is_proved_by(namespace),
        staleness,
        status: status.filter(|status| deployment.status.as_ref() != Some(status)),
        ..Plan::default()
    }
}

fn desired_namespace(observed: &Observed<'_>) -> DesiredNamespace {
    // A customer can edit the record, so it does not prove the identity of the hub namespace.
    let is_own = observed.derived == Some(observed.hub_namespace);
    let written = |key: &str| observed.namespace?.annotations().get(key).cloned();
    let known_by = |key: &str, uid: Option<&str>| {
        let uid = uid.filter(|_| is_own).map(str::to_owned);
        // If the UID is currently unknown, the annotation keeps the UID that was written before.
        Some((key.to_owned(), uid.or_else(|| written(key))?))
    };
    let annotations = [
        known_by(annotations::UPSTREAM_CLUSTER_UID, observed.cluster_uid),
        known_by(annotations::UPSTREAM_ROOT_UID, observed.root_uid),
    ];
    let hub = observed.hub.uid();
    let hub = hub.map(|uid| (annotations::HUB_UID.to_owned(), uid.to_owned()));
    DesiredNamespace {
        labels: upstream(observed).labels(),
        annotations: annotations.into_iter().chain([hub]).flatten().collect(),
    }
}

/// Returns whether the copy was created for another city. Such a copy is deleted and created again. While the policy of
/// the former city exists, Karmada keeps the objects that it claimed for this policy in the cells of the former city
/// (docs/concepts/karmada-behaviour.md). A manual edit changes the label or the spec, but not both.
fn is_of_another_city(copy: &WorkloadDeployment, city: &CityCode) -> bool {
    copy.spec.city_code != city.as_str()
        && label(copy, labels::CITY_CODE).is_some_and(|label| label != city.as_str())
}

#[cfg(test)]
mod tests;
