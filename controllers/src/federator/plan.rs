//! What carries a project's WorkloadDeployment to the hub and its status back.

pub(super) mod freshness;
pub(super) mod orphan;
pub(super) mod status;

use std::sync::Arc;

use api::{
    CityCode, HubNamespace, ProjectName, WorkloadDeployment, WorkloadDeploymentStatus, annotations,
    finalizers, labels,
};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::reapply::staleness::{Staleness, staleness};
use crate::hub::cells::CopyCells;
use crate::hub::upstream::Upstream;
use crate::objects::{
    Namespace, StringMap, covers, describe, has_finalizer, is_terminating, label,
    recorded_hub_namespace,
};
use crate::runtime::ReconcileError;
use freshness::fresh;
use status::{contradicted, invalid_city_code, status, unreported};

/// What the controller sees.
pub(super) struct Observed<'a> {
    pub(super) project: &'a ProjectName,
    /// The project's deployment.
    pub(super) deployment: &'a WorkloadDeployment,
    /// The recorded hub namespace, or that of the deployment's namespace.
    pub(super) hub_namespace: &'a HubNamespace,
    /// The hub namespace of the deployment's namespace, where that Namespace is there.
    pub(super) derived: Option<&'a HubNamespace>,
    /// What the project's API server is known by,
    pub(super) cluster_uid: Option<&'a str>,
    /// and the Milo root that has the project.
    pub(super) root_uid: Option<&'a str>,
    /// The Namespace of that name on the hub.
    pub(super) namespace: Option<&'a Namespace>,
    /// The deployment of the same name on the hub.
    pub(super) copy: Option<&'a Arc<WorkloadDeployment>>,
    /// Whether a policy on the hub propagates what has this city code.
    pub(super) policy_exists: bool,
    /// What is known of the cells of the copy.
    pub(super) cells: CopyCells<'a>,
    pub(super) now: Timestamp,
}

/// What must be done, in this order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Record the hub namespace on the project's deployment, together with the finalizer.
    pub(super) record: bool,
    pub(super) apply_namespace: Option<DesiredNamespace>,
    pub(super) apply_copy: Option<DesiredCopy>,
    pub(super) delete_copy: bool,
    pub(super) status: Option<WorkloadDeploymentStatus>,
    /// What to make Karmada apply again, if it stays so.
    pub(super) staleness: Staleness,
    /// Remove the finalizer, once the hub has confirmed that the copy is gone.
    pub(super) release: bool,
    /// What contradicts itself. Nothing else is done until someone has resolved it, but for saying so in the status.
    pub(super) hold: Option<String>,
}

/// The hub namespace.
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

/// The hub's copy. Its spec is that of the project's deployment.
#[derive(Debug, PartialEq)]
pub(super) struct DesiredCopy {
    pub(super) labels: StringMap,
    pub(super) annotations: StringMap,
}

/// Whether the copy says the same of referenced data as the project's deployment: also nothing, where that has nothing
/// (I-19). Absent means that no one has looked yet, empty that nothing is needed.
pub(super) fn same_referenced_data(
    copy: &WorkloadDeployment,
    deployment: &WorkloadDeployment,
) -> bool {
    let of = |deployment: &WorkloadDeployment| {
        let data = deployment
            .annotations()
            .get(annotations::EXPECTED_REFERENCED_DATA);
        data.cloned()
    };
    of(copy) == of(deployment)
}

/// The hub namespace of a project's namespace.
pub(super) fn derived(
    deployment: &WorkloadDeployment,
    namespace: Option<&Namespace>,
) -> Result<Option<HubNamespace>, ReconcileError> {
    let uid = namespace.and_then(ResourceExt::uid);
    uid.map(|uid| HubNamespace::of_project_namespace(&uid))
        .transpose()
        .map_err(ReconcileError::identity(describe(deployment)))
}

/// The hub namespace of a deployment: the recorded one. One that has none yet gets that of its namespace, which is the
/// only other thing that is read; of one that is terminating, the record suffices (P-7). `None` when there is no record
/// and nothing to release.
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

/// What contradicts itself about the hub namespace. The record is the customer's to edit, and must not lead to what is
/// another's; whose that is, is not told here, for a customer reads it.
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
            "hub namespace {hub_namespace} is labelled as that of another project or namespace"
        ));
    }
    // One that is terminating goes by its record, unless nothing else speaks for that.
    let others = derived.filter(|derived| *derived != hub_namespace);
    if let (Some(derived), true) = (others, !terminating || namespace.is_none()) {
        return Some(format!(
            "annotation {record} says {hub_namespace}, its namespace belongs to {derived}"
        ));
    }
    let unproved = namespace.is_some() || copy.is_some();
    (terminating && unproved && !is_proved(observed)).then(|| {
        format!(
            "hub namespace {hub_namespace} is not labelled as that of this project and namespace"
        )
    })
}

fn upstream(observed: &Observed<'_>) -> Upstream {
    Upstream {
        project: observed.project.clone(),
        namespace: observed.deployment.namespace().unwrap_or_default(),
    }
}

/// Whether the hub namespace itself says that it belongs to the deployment's namespace.
fn is_proved(observed: &Observed<'_>) -> bool {
    observed.namespace.is_some_and(|namespace| {
        Upstream::of(namespace.meta()).is_ok_and(|of| of == upstream(observed))
    })
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        deployment, copy, ..
    } = *observed;
    let terminating = is_terminating(deployment);
    if terminating && !has_finalizer(deployment, finalizers::FEDERATOR) {
        return Plan::default();
    }
    if let Some(problem) = contradiction(observed) {
        let status = contradicted(deployment, &problem, observed.now);
        return Plan {
            status: (deployment.status.as_ref() != Some(&status)).then_some(status),
            hold: Some(problem),
            ..Plan::default()
        };
    }
    if terminating {
        return Plan {
            delete_copy: copy.is_some_and(|copy| !is_terminating(copy.as_ref())),
            release: copy.is_none(),
            ..Plan::default()
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

fn federate(observed: &Observed<'_>, city: &CityCode) -> Plan {
    let Observed {
        deployment,
        hub_namespace,
        namespace,
        copy,
        policy_exists,
        cells,
        now,
        ..
    } = *observed;
    let upstream_namespace = deployment.namespace().unwrap_or_default();
    let recorded = recorded_hub_namespace(deployment.meta());
    let desired_namespace = desired_namespace(observed);
    let copy_labels = StringMap::from([
        (labels::CITY_CODE.to_owned(), city.as_str().to_owned()),
        (labels::UPSTREAM_NAMESPACE.to_owned(), upstream_namespace),
    ]);
    let copy_is_as_desired = |copy: &WorkloadDeployment| {
        copy.spec == deployment.spec
            && covers(copy.labels(), &copy_labels)
            && same_referenced_data(copy, deployment)
    };
    let mut copy_annotations = deployment.annotations().clone();
    copy_annotations.retain(|key, _| key == annotations::EXPECTED_REFERENCED_DATA);
    let in_step = copy.is_some_and(|copy| copy_is_as_desired(copy));
    let shown = deployment.status.as_ref();
    let shown = shown.map_or(&[][..], |status| &status.conditions);
    let status = copy.and_then(|copy| {
        let fresh = fresh(copy, cells, shown, now);
        match fresh.as_ref().or(copy.status.as_ref()) {
            Some(hub) => Some(status(deployment, copy, hub, in_step)),
            None => deployment
                .status
                .clone()
                .map(|former| unreported(former, now)),
        }
    });
    let live = copy.filter(|copy| !is_terminating(copy.as_ref()));
    let moves = live.is_some_and(|copy| is_of_another_city(copy, city));
    // A copy that is terminating is waited for. A new one waits for its policy: created before it, it would be
    // Karmada's to find later.
    let apply_copy = match copy {
        Some(_) => !in_step && !moves && live.is_some(),
        None => policy_exists,
    };
    Plan {
        record: !has_finalizer(deployment, finalizers::FEDERATOR)
            || recorded != Some(hub_namespace.as_str()),
        apply_namespace: (!namespace.is_some_and(|namespace| desired_namespace.is(namespace)))
            .then_some(desired_namespace),
        apply_copy: apply_copy.then_some(DesiredCopy {
            labels: copy_labels,
            annotations: copy_annotations,
        }),
        delete_copy: moves && is_proved(observed),
        // What is written now is applied anyway.
        staleness: match live.filter(|_| in_step) {
            Some(copy) => staleness(copy, cells),
            None => Staleness::default(),
        },
        status: status.filter(|status| deployment.status.as_ref() != Some(status)),
        ..Plan::default()
    }
}

fn desired_namespace(observed: &Observed<'_>) -> DesiredNamespace {
    // A record that a customer can edit is no proof of whose the hub namespace is.
    let is_own = observed.derived == Some(observed.hub_namespace);
    let written = |key: &str| observed.namespace?.annotations().get(key).cloned();
    let known_by = |key: &str, uid: Option<&str>| {
        let uid = uid.filter(|_| is_own).map(str::to_owned);
        // What is not known now was when it was written.
        Some((key.to_owned(), uid.or_else(|| written(key))?))
    };
    let annotations = [
        known_by(annotations::UPSTREAM_CLUSTER_UID, observed.cluster_uid),
        known_by(annotations::UPSTREAM_ROOT_UID, observed.root_uid),
    ];
    DesiredNamespace {
        labels: upstream(observed).labels(),
        annotations: annotations.into_iter().flatten().collect(),
    }
}

/// Whether the copy was made for another city. It is deleted and made anew: as long as the policy of the former city is
/// there, Karmada keeps what that has claimed where it is (karmada.md 8.1). An edit by hand changes the label or the spec.
fn is_of_another_city(copy: &WorkloadDeployment, city: &CityCode) -> bool {
    copy.spec.city_code != city.as_str()
        && label(copy, labels::CITY_CODE).is_some_and(|label| label != city.as_str())
}

#[cfg(test)]
mod tests;
