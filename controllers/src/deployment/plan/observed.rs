//! The observations of the controller, and the Instances of its WorkloadDeployment.

use std::sync::Arc;

use api::condition;
use api::instance::READY;
use api::{Instance, WorkloadDeployment};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use crate::names;
use crate::objects::{controller_uid, controller_uid_of};

/// Prefix of our template hashes. The Go manager wrote hashes without this prefix. They cannot be recomputed (I-22).
pub(super) const HASH_PREFIX: &str = "v1-";
/// Longest error of an object that cannot be decoded that a condition contains, in characters.
const PROBLEM_MAX: usize = 256;

/// The observations of the controller.
pub(in crate::deployment) struct Observed<'a> {
    pub(in crate::deployment) deployment: &'a WorkloadDeployment,
    /// The Instances in the namespace of the WorkloadDeployment that can be decoded. Any object may be their controller
    /// owner.
    pub(in crate::deployment) instances: &'a [Arc<Instance>],
    /// The other Instances in the namespace.
    pub(in crate::deployment) undecodable: &'a [Arc<InvalidObject>],
    pub(in crate::deployment) now: Timestamp,
}

/// The Instances in the namespace of a WorkloadDeployment.
pub(super) struct Instances {
    /// Instances whose controller owner is the WorkloadDeployment.
    pub(super) own: Vec<Arc<Instance>>,
    /// Names of Instances with another owner. They can have the name of one of its ordinals.
    pub(super) former: Vec<String>,
    /// For each own Instance that cannot be decoded, a sentence for users.
    pub(super) undecodable: Vec<String>,
    /// Names of all Instances that cannot be decoded.
    pub(super) undecodable_names: Vec<String>,
}

impl Instances {
    pub(super) fn new(observed: &Observed<'_>) -> Self {
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
pub(super) fn undecodable<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a InvalidObject> {
    let uid = observed.deployment.metadata.uid.as_deref();
    let all = observed.undecodable.iter().map(AsRef::as_ref);
    all.filter(move |invalid| controller_uid_of(&invalid.metadata) == uid)
}

fn sentence(invalid: &InvalidObject) -> String {
    let name = invalid.metadata.name.as_deref().unwrap_or_default();
    let problem: String = invalid.error.chars().take(PROBLEM_MAX).collect();
    format!("Instance {name} cannot be decoded: {problem}")
}

/// Returns the name of the Instance of this ordinal.
pub(in crate::deployment) fn instance_name(
    deployment: &WorkloadDeployment,
    ordinal: i32,
) -> String {
    format!("{}-{ordinal}", deployment.name_any())
}

/// Returns the ordinal in the name of an Instance of this WorkloadDeployment.
pub(in crate::deployment) fn ordinal(
    deployment: &WorkloadDeployment,
    instance: &Instance,
) -> Option<i32> {
    ordinal_of_name(deployment, instance.metadata.name.as_deref()?)
}

pub(super) fn ordinal_of_name(deployment: &WorkloadDeployment, name: &str) -> Option<i32> {
    let ordinal: i32 = name
        .strip_prefix(&deployment.name_any())?
        .strip_prefix('-')?
        .parse()
        .ok()?;
    (instance_name(deployment, ordinal) == name).then_some(ordinal)
}

/// Returns a hash of the template. The infrastructure provider reports which template a running Instance uses, by this
/// hash.
pub(in crate::deployment) fn template_hash(deployment: &WorkloadDeployment) -> String {
    let template = serde_json::to_string(&deployment.spec.template).unwrap_or_default();
    format!("{HASH_PREFIX}{}", names::hash(&[&template]))
}

pub(super) fn is_ready(instance: &Instance) -> bool {
    instance
        .status
        .as_ref()
        .is_some_and(|status| condition::is_true(&status.conditions, READY))
}

/// Returns whether the Instance was created from another template. If the Instance has one of our hashes, the hashes
/// are compared. If the Instance has a hash of the Go manager, the specs are compared. So the change of the hash format
/// alone replaces no customer's machine.
pub(super) fn is_drifted(deployment: &WorkloadDeployment, instance: &Instance) -> bool {
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
