//! Decides which Instances a WorkloadDeployment needs in its cell, and in which order they are created, replaced and
//! deleted (docs/concepts/flow.md#rollout).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::condition::{self, Condition, ConditionStatus};
use api::instance::{PROGRAMMED, READY};
use api::reasons::workload_deployment as reason;
use api::workload::ORDERED_READY;
use api::workload_deployment::{AVAILABLE, REPLICAS_READY};
use api::{Instance, WorkloadDeployment, WorkloadDeploymentStatus, finalizers, labels};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::names;
use crate::objects::{StringMap, controller_uid, covers, has_finalizer, is_terminating};

/// Prefix of our template hashes. The Go manager wrote hashes without this prefix. They cannot be recomputed (I-22).
const HASH_PREFIX: &str = "v1-";

/// The observations of the controller.
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// All Instances in the namespace of the WorkloadDeployment. Any object may be their controller owner.
    pub(super) instances: &'a [Arc<Instance>],
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
    pub(super) status: Option<WorkloadDeploymentStatus>,
    pub(super) remove_finalizer: bool,
}

/// A step of the ordered rollout.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RolloutStep {
    /// Create the Instance of this ordinal.
    Create(i32),
    /// Wait until this Instance is ready, or gone.
    Wait(String),
    /// Delete this Instance because its template changed. The next reconciliation creates a new Instance from the new
    /// template.
    Replace(Arc<Instance>),
    /// Delete this Instance because it is surplus.
    Delete(Arc<Instance>),
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let Observed {
        deployment,
        instances,
        now,
    } = *observed;
    let own = own(deployment, instances);
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
            remove_finalizer: own.is_empty(),
            ..Plan::default()
        };
    }
    Plan {
        add_finalizer: !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER),
        steps: steps(deployment, &own, instances),
        refresh: own
            .iter()
            .filter(|instance| needs_refresh(deployment, instance))
            .cloned()
            .collect(),
        status: changed_status(deployment, &own, None, now),
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
        deployment,
        instances,
        now,
    } = *observed;
    if is_terminating(deployment) {
        return None;
    }
    changed_status(deployment, &own(deployment, instances), Some(refusal), now)
}

/// Returns the Instances whose controller owner is the WorkloadDeployment.
fn own(deployment: &WorkloadDeployment, instances: &[Arc<Instance>]) -> Vec<Arc<Instance>> {
    let uid = deployment.uid().unwrap_or_default();
    let own = instances.iter();
    own.filter(|instance| controller_uid(instance.as_ref()) == Some(&uid))
        .cloned()
        .collect()
}

/// Returns the status if it differs from the current one.
fn changed_status(
    deployment: &WorkloadDeployment,
    own: &[Arc<Instance>],
    refusal: Option<&str>,
    now: Timestamp,
) -> Option<WorkloadDeploymentStatus> {
    let status = status(deployment, own, refusal, now);
    (deployment.status.as_ref() != Some(&status)).then_some(status)
}

/// Returns the name of the Instance of this ordinal.
pub(super) fn instance_name(deployment: &WorkloadDeployment, ordinal: i32) -> String {
    format!("{}-{ordinal}", deployment.name_any())
}

/// Returns the ordinal in the name of an Instance of this WorkloadDeployment.
pub(super) fn ordinal(deployment: &WorkloadDeployment, instance: &Instance) -> Option<i32> {
    let name = instance.name_any();
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

/// Returns the steps of the ordered rollout. The rollout first creates missing Instances and waits for unready ones, by
/// ascending ordinal. Then it replaces Instances of another template, by descending ordinal. Finally it deletes surplus
/// Instances. An unready Instance of another template is replaced immediately: it may become ready, but never with the
/// right template.
fn steps(
    deployment: &WorkloadDeployment,
    own: &[Arc<Instance>],
    all: &[Arc<Instance>],
) -> Vec<RolloutStep> {
    if deployment.spec.scale_settings.instance_management_policy != ORDERED_READY {
        return Vec::new();
    }
    let wanted = deployment.spec.desired_replicas();
    let (mut slots, mut surplus) = (BTreeMap::new(), Vec::new());
    for instance in own {
        match ordinal(deployment, instance) {
            Some(ordinal) if (0..wanted).contains(&ordinal) => {
                slots.insert(ordinal, instance);
            }
            // Surplus Instances without an ordinal are deleted first.
            Some(ordinal) => surplus.push((ordinal, instance)),
            None => surplus.push((i32::MAX, instance)),
        }
    }
    let (mut forward, mut replace) = (Vec::new(), Vec::new());
    for ordinal in 0..wanted {
        let name = instance_name(deployment, ordinal);
        match slots.get(&ordinal) {
            Some(instance) if is_terminating(instance.as_ref()) => {
                forward.push(RolloutStep::Wait(name));
            }
            Some(instance) => match (is_ready(instance), is_drifted(deployment, instance)) {
                (true, false) => {}
                (true, true) => replace.push(RolloutStep::Replace(Arc::clone(instance))),
                (false, false) => forward.push(RolloutStep::Wait(name)),
                (false, true) => forward.push(RolloutStep::Replace(Arc::clone(instance))),
            },
            // The Instance belongs to an earlier WorkloadDeployment of the same name. Garbage collection deletes it.
            None if all.iter().any(|instance| instance.name_any() == name) => {
                forward.push(RolloutStep::Wait(name));
            }
            None => forward.push(RolloutStep::Create(ordinal)),
        }
    }
    surplus.sort_by(|(one, a), (other, b)| {
        other.cmp(one).then_with(|| a.name_any().cmp(&b.name_any()))
    });
    let delete = surplus
        .into_iter()
        .map(|(_, instance)| match is_terminating(instance.as_ref()) {
            true => RolloutStep::Wait(instance.name_any()),
            false => RolloutStep::Delete(Arc::clone(instance)),
        });
    forward
        .into_iter()
        .chain(replace.into_iter().rev())
        .chain(delete)
        .collect()
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

fn status(
    deployment: &WorkloadDeployment,
    own: &[Arc<Instance>],
    refusal: Option<&str>,
    now: Timestamp,
) -> WorkloadDeploymentStatus {
    let hash = template_hash(deployment);
    let count = |counts: &dyn Fn(&Instance) -> bool| {
        i32::try_from(own.iter().filter(|instance| counts(instance)).count()).unwrap_or(i32::MAX)
    };
    // After a refresh, the provider still reports the hash of the Go manager until it has observed the Instance again.
    let is_current = |observed: &str, instance: &Instance| {
        let is_foreign = !observed.is_empty() && !observed.starts_with(HASH_PREFIX);
        observed == hash || is_foreign && !is_drifted(deployment, instance)
    };
    let runs_template = |instance: &Instance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| {
            let observed = status.controller.as_ref();
            condition::is_true(&status.conditions, PROGRAMMED)
                && observed.is_some_and(|it| is_current(&it.observed_template_hash, instance))
        })
    };
    let former = deployment.status.clone().unwrap_or_default();
    let replicas = count(&|_| true);
    let ready = count(&is_ready);
    let mut conditions = former.conditions;
    let available = available(deployment, ready, refusal, now);
    for condition in [available, replicas_ready(now)] {
        condition::set(
            &mut conditions,
            condition.observed(deployment.metadata.generation),
        );
    }
    WorkloadDeploymentStatus {
        cells: Vec::new(),
        conditions,
        current_replicas: count(&runs_template),
        desired_replicas: deployment.spec.desired_replicas(),
        location: former.location,
        observed_generation: deployment.metadata.generation,
        ready_replicas: ready,
        replicas,
        reporting_cell: None,
    }
}

fn available(
    deployment: &WorkloadDeployment,
    ready: i32,
    refusal: Option<&str>,
    now: Timestamp,
) -> Condition {
    let policy = &deployment.spec.scale_settings.instance_management_policy;
    let desired = deployment.spec.desired_replicas();
    let (status, reason, message) = if policy != ORDERED_READY {
        let message =
            format!("instanceManagementPolicy {policy:?} is not supported, {ORDERED_READY} is");
        (ConditionStatus::False, reason::UNSUPPORTED_POLICY, message)
    } else if desired == 0 {
        (
            ConditionStatus::True,
            reason::NO_INSTANCES_DESIRED,
            "no instances are desired".to_owned(),
        )
    } else if ready > 0 {
        (
            ConditionStatus::True,
            reason::STABLE_INSTANCE_FOUND,
            "an instance is ready".to_owned(),
        )
    } else {
        let message = format!("no instance of {desired} is ready");
        (
            ConditionStatus::False,
            reason::PROVISIONING_INSTANCES,
            message,
        )
    };
    let message = match refusal {
        Some(refusal) => format!("{message}; {refusal}"),
        None => message,
    };
    Condition::new(AVAILABLE, status, reason, message, now)
}

fn replicas_ready(now: Timestamp) -> Condition {
    let message = "no instance waits for quota";
    Condition::new(
        REPLICAS_READY,
        ConditionStatus::True,
        reason::REPLICAS_AVAILABLE,
        message,
        now,
    )
}

#[cfg(test)]
mod tests;
