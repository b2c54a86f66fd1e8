//! Decides which Instances a WorkloadDeployment needs in its cell, and in which order they are created, replaced and
//! deleted (docs/concepts/flow.md#rollout).

mod pruned;
mod rollout;
mod status;

use std::sync::Arc;

use api::condition;
use api::instance::READY;
use api::{Instance, WorkloadDeployment, WorkloadDeploymentStatus, finalizers, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use crate::names;
use crate::objects::{
    StringMap, controller_uid, controller_uid_of, covers, has_finalizer, is_terminating,
};
use pruned::pruned;
pub(super) use rollout::RolloutStep;
use rollout::steps;
use status::status;

/// Prefix of our template hashes. The Go manager wrote hashes without this prefix. They cannot be recomputed (I-22).
const HASH_PREFIX: &str = "v1-";
/// Longest error of an object that cannot be decoded that a condition contains, in characters.
const PROBLEM_MAX: usize = 256;

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// The Instances in the namespace of the WorkloadDeployment that can be decoded. Any object may be their controller
    /// owner.
    pub(super) instances: &'a [Arc<Instance>],
    /// The other Instances in the namespace.
    pub(super) undecodable: &'a [Arc<InvalidObject>],
    pub(super) now: Timestamp,
}

/// The actions to take, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    /// All steps towards the wanted state. One reconciliation takes only the first step.
    pub(super) steps: Vec<RolloutStep>,
    /// Instances that run the current template but lack labels or carry another hash.
    pub(super) refresh: Vec<Arc<Instance>>,
    /// Instances to delete because the WorkloadDeployment is terminating.
    pub(super) delete: Vec<Arc<Instance>>,
    /// The metadata of Instances to delete for the same reason that cannot be decoded.
    pub(super) delete_undecodable: Vec<ObjectMeta>,
    pub(super) status: Option<WorkloadDeploymentStatus>,
    pub(super) remove_finalizer: bool,
}

/// The Instances in the namespace of a WorkloadDeployment.
struct Instances {
    /// Instances whose controller owner is the WorkloadDeployment.
    own: Vec<Arc<Instance>>,
    /// Names of Instances with another owner. They can have the name of one of its ordinals.
    former: Vec<String>,
    /// For each own Instance that cannot be decoded, a sentence for users.
    undecodable: Vec<String>,
    /// Names of all Instances that cannot be decoded.
    undecodable_names: Vec<String>,
}

impl Instances {
    fn new(observed: &Observed<'_>) -> Self {
        let (own, former) = observed
            .instances
            .iter()
            .partition::<Vec<_>, _>(|instance| {
                controller_uid(instance.as_ref()) == observed.deployment.metadata.uid.as_deref()
            });
        let own_undecodable = undecodable(observed);
        let names = observed.undecodable.iter();
        Self {
            own: own.into_iter().cloned().collect(),
            former: former.iter().map(|instance| instance.name_any()).collect(),
            undecodable: own_undecodable.map(sentence).collect(),
            undecodable_names: names
                .filter_map(|invalid| invalid.metadata.name.clone())
                .collect(),
        }
    }
}

/// Returns the Instances of the WorkloadDeployment that cannot be decoded.
fn undecodable<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a InvalidObject> {
    let uid = observed.deployment.metadata.uid.as_deref();
    let all = observed.undecodable.iter().map(AsRef::as_ref);
    all.filter(move |invalid| controller_uid_of(&invalid.metadata) == uid)
}

fn sentence(invalid: &InvalidObject) -> String {
    let name = invalid.metadata.name.as_deref().unwrap_or_default();
    let problem: String = invalid.error.chars().take(PROBLEM_MAX).collect();
    format!("Instance {name} cannot be decoded: {problem}")
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        deployment, now, ..
    } = *observed;
    let instances = Instances::new(observed);
    let own = &instances.own;
    if is_terminating(deployment) {
        if !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER) {
            return Plan::default();
        }
        return Plan {
            delete: own
                .iter()
                .filter(|instance| !is_terminating(instance.as_ref()))
                .cloned()
                .collect(),
            delete_undecodable: undecodable(observed)
                .map(|invalid| invalid.metadata.clone())
                .filter(|metadata| metadata.deletion_timestamp.is_none())
                .collect(),
            remove_finalizer: own.is_empty() && instances.undecodable.is_empty(),
            ..Plan::default()
        };
    }
    Plan {
        add_finalizer: !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER),
        steps: steps(deployment, &instances),
        refresh: own
            .iter()
            .filter(|instance| needs_refresh(deployment, instance))
            .cloned()
            .collect(),
        status: changed_status(deployment, &instances, None, now),
        ..Plan::default()
    }
}

/// Returns the status after the API server refused a step. The message of its condition ends with the error of the API
/// server. Returns `None` if the status does not change.
pub(super) fn status_after_refusal(
    observed: &Observed<'_>,
    refusal: &str,
) -> Option<WorkloadDeploymentStatus> {
    let Observed {
        deployment, now, ..
    } = *observed;
    if is_terminating(deployment) {
        return None;
    }
    changed_status(deployment, &Instances::new(observed), Some(refusal), now)
}

/// Returns the status if it differs from the current one.
fn changed_status(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    refusal: Option<&str>,
    now: Timestamp,
) -> Option<WorkloadDeploymentStatus> {
    let status = status(deployment, instances, refusal, now);
    (deployment.status.as_ref() != Some(&status)).then_some(status)
}

/// Returns the name of the Instance of this ordinal.
pub(super) fn instance_name(deployment: &WorkloadDeployment, ordinal: i32) -> String {
    format!("{}-{ordinal}", deployment.name_any())
}

/// Returns the ordinal in the name of an Instance of this WorkloadDeployment.
pub(super) fn ordinal(deployment: &WorkloadDeployment, instance: &Instance) -> Option<i32> {
    ordinal_of_name(deployment, instance.metadata.name.as_deref()?)
}

fn ordinal_of_name(deployment: &WorkloadDeployment, name: &str) -> Option<i32> {
    let ordinal: i32 = name
        .strip_prefix(&deployment.name_any())?
        .strip_prefix('-')?
        .parse()
        .ok()?;
    (instance_name(deployment, ordinal) == name).then_some(ordinal)
}

/// Returns the labels that link an Instance to its WorkloadDeployment.
pub(super) fn linking_labels(deployment: &WorkloadDeployment, ordinal: i32) -> StringMap {
    let spec = &deployment.spec;
    StringMap::from([
        (
            labels::WORKLOAD_UID.to_owned(),
            spec.workload_ref.uid.clone(),
        ),
        (
            labels::WORKLOAD_NAME.to_owned(),
            names::label_value(&spec.workload_ref.name),
        ),
        (
            labels::PLACEMENT_NAME.to_owned(),
            names::label_value(&spec.placement_name),
        ),
        (
            labels::INSTANCE_CITY_CODE.to_owned(),
            spec.city_code.clone(),
        ),
        (
            labels::WORKLOAD_DEPLOYMENT_UID.to_owned(),
            deployment.uid().unwrap_or_default(),
        ),
        (
            labels::WORKLOAD_DEPLOYMENT_NAME.to_owned(),
            names::label_value(&deployment.name_any()),
        ),
        (labels::INSTANCE_INDEX.to_owned(), ordinal.to_string()),
    ])
}

/// Returns a hash of the template. The infrastructure provider reports which template a running Instance uses, by this
/// hash.
pub(super) fn template_hash(deployment: &WorkloadDeployment) -> String {
    let template = serde_json::to_string(&deployment.spec.template).unwrap_or_default();
    format!("{HASH_PREFIX}{}", names::hash(&[&template]))
}

fn is_ready(instance: &Instance) -> bool {
    instance
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, READY))
}

/// Returns whether the Instance was created from another template. If the Instance has one of our hashes, the hashes
/// are compared. If the Instance has a hash of the Go manager, the specs are compared. So the change of the hash format
/// alone replaces no customer's machine.
fn is_drifted(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
    match &instance.spec.controller {
        Some(controller) if controller.template_hash.starts_with(HASH_PREFIX) => {
            controller.template_hash != template_hash(deployment)
        }
        _ => {
            let spec = api::InstanceSpec {
                controller: None,
                ..instance.spec.clone()
            };
            spec != api::InstanceSpec {
                controller: None,
                ..deployment.spec.template.spec.clone()
            }
        }
    }
}

/// Returns whether an Instance of the current template lacks labels or has another hash.
fn needs_refresh(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
    let Some(ordinal) = ordinal(deployment, instance) else {
        return false;
    };
    let hash = instance
        .spec
        .controller
        .as_ref()
        .map(|controller| &controller.template_hash);
    !is_terminating(instance)
        && !is_drifted(deployment, instance)
        && (!covers(instance.labels(), &linking_labels(deployment, ordinal))
            || hash != Some(&template_hash(deployment)))
}

#[cfg(test)]
mod tests;
