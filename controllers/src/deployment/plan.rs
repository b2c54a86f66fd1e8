//! Decides which Instances a WorkloadDeployment needs in its cell, and in which order they are created, replaced and
//! deleted (docs/concepts/flow.md#rollout).

mod data;
mod observed;
mod pruned;
mod rollout;
mod status;

use std::sync::Arc;

use api::{Instance, WorkloadDeployment, WorkloadDeploymentStatus, finalizers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::objects::{controller_uid, covers, has_finalizer, is_terminating};
pub(super) use data::{DataVersions, data_record};
use data::{all_data, lacks_record, meant_data, newer_data};
use observed::{Instances, is_drifted, is_of_another_template, undecodable};
pub(super) use observed::{
    Observed, QuotaAnswers, instance_name, linking_labels, ordinal, ordinal_of_name, quota_key,
    spec_of_template,
};
pub(super) use rollout::RolloutStep;
use rollout::steps;
use status::status;

/// The actions to take.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) add_finalizer: bool,
    /// Instances that are suspended although the WorkloadDeployment is not, or the other way round.
    pub(super) suspend: Vec<Arc<Instance>>,
    /// All steps towards the wanted state. One reconciliation takes only the first step.
    pub(super) steps: Vec<RolloutStep>,
    /// Instances that run the current template but lack labels or carry another hash.
    pub(super) refresh: Vec<Arc<Instance>>,
    /// Instances to which the versions of their data are written.
    pub(super) record: Vec<Arc<Instance>>,
    /// Instances to delete because the WorkloadDeployment is terminating or [ends](WorkloadDeployment::is_ending).
    pub(super) delete: Vec<Arc<Instance>>,
    /// The metadata of Instances to delete for the same reason that cannot be decoded.
    pub(super) delete_undecodable: Vec<ObjectMeta>,
    pub(super) status: Option<WorkloadDeploymentStatus>,
    pub(super) remove_finalizer: bool,
}

impl Plan {
    /// Returns whether Instances are deleted apart from the rollout.
    pub(super) fn deletes_without_steps(&self) -> bool {
        !self.delete.is_empty() || !self.delete_undecodable.is_empty()
    }
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
            delete: staying(own),
            delete_undecodable: staying_undecodable(observed),
            remove_finalizer: own.is_empty() && instances.undecodable.is_empty(),
            ..Plan::default()
        };
    }
    if deployment.is_ending() {
        let plan = Plan {
            add_finalizer: !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER),
            delete: staying(own),
            delete_undecodable: staying_undecodable(observed),
            ..Plan::default()
        };
        // A deletion has an event, which triggers the next reconciliation.
        let status = match plan.deletes_without_steps() {
            true => None,
            false => changed_status(deployment, &instances, None, now),
        };
        return Plan { status, ..plan };
    }
    Plan {
        add_finalizer: !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER),
        suspend: own
            .iter()
            .filter(|it| !is_terminating(it.as_ref()))
            .filter(|it| it.is_suspended() != deployment.is_suspended())
            .cloned()
            .collect(),
        steps: steps(deployment, &instances),
        record: own
            .iter()
            .filter(|it| needs_record(deployment, &instances, it))
            .cloned()
            .collect(),
        refresh: own
            .iter()
            .filter(|it| needs_refresh(deployment, &instances, it))
            .cloned()
            .collect(),
        status: changed_status(deployment, &instances, None, now),
        ..Plan::default()
    }
}

/// Returns the Instances that are not terminating.
fn staying(instances: &[Arc<Instance>]) -> Vec<Arc<Instance>> {
    let instances = instances.iter();
    let staying = instances.filter(|instance| !is_terminating(instance.as_ref()));
    staying.cloned().collect()
}

/// Returns the metadata of the own Instances that cannot be decoded and are not terminating.
fn staying_undecodable(observed: &Observed<'_>) -> Vec<ObjectMeta> {
    undecodable(observed)
        .map(|invalid| invalid.metadata.clone())
        .filter(|metadata| metadata.deletion_timestamp.is_none())
        .collect()
}

/// Returns the sources of the template and their versions, if an Instance has to be replaced for one of them.
pub(super) fn data_to_roll(observed: &Observed<'_>) -> DataVersions {
    let Some(meant) = meant_data(observed.deployment) else {
        return DataVersions::new();
    };
    let uid = observed.deployment.metadata.uid.as_deref();
    let mut instances = observed.instances.iter().map(AsRef::as_ref);
    let is_older =
        |it: &Instance| controller_uid(it) == uid && !newer_data(Some(&meant), it).is_empty();
    match instances.any(is_older) {
        true => all_data(&meant),
        false => DataVersions::new(),
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

/// Returns whether an Instance of the current template must get the versions of its data as its record.
fn needs_record(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    instance: &Instance,
) -> bool {
    !is_terminating(instance)
        && lacks_record(deployment, instances.meant_data.as_ref(), instance)
        && !is_of_another_template(deployment, &instances.template_hash, instance)
}

/// Returns whether an Instance of the current template lacks labels or has another hash.
fn needs_refresh(
    deployment: &WorkloadDeployment,
    instances: &Instances,
    instance: &Instance,
) -> bool {
    let Some(ordinal) = ordinal(deployment, instance) else {
        return false;
    };
    let hash = instance
        .spec
        .controller
        .as_ref()
        .map(|controller| controller.template_hash.as_str());
    !is_terminating(instance)
        && !is_drifted(deployment, instances, instance)
        && (!covers(instance.labels(), &linking_labels(deployment, ordinal))
            || hash != Some(instances.template_hash.as_str()))
}

#[cfg(test)]
mod tests;
