//! Decides whether a deleted Instance waits for the hub.

use std::time::Duration;

use api::allowed::REPLICAS_MAX;
use api::workload::ORDERED_READY;
use api::{WorkloadDeployment, finalizers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::names::instance_ordinal;
use crate::objects::{controller_uid_of, has_finalizer, is_terminating};

/// How long an Instance that is replaced waits for the hub. Most interruptions are shorter.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What to do about a terminating Instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing replaces it, so it waits for the hub.
    Leave,
    /// Look again after this time.
    Wait(Duration),
    /// Release it, if the hub does not answer.
    Release,
}

/// Returns the next step. `instance` is the metadata of the Instance, `deployment` is its WorkloadDeployment.
pub(super) fn step(
    deployment: Option<&WorkloadDeployment>,
    instance: &ObjectMeta,
    now: Timestamp,
) -> Step {
    let is_replaced = deployment.is_some_and(|deployment| is_replaced(deployment, instance));
    let Some(since) = instance.deletion_timestamp.as_ref().filter(|_| is_replaced) else {
        return Step::Leave;
    };
    // A clock that is behind that of the API server makes this longer.
    let waited = now.duration_since(since.0);
    let waited = Duration::try_from(waited).unwrap_or_default();
    match PATIENCE.checked_sub(waited) {
        None | Some(Duration::ZERO) => Step::Release,
        Some(rest) => Step::Wait(rest),
    }
}

/// Returns whether the rollout of the WorkloadDeployment makes another Instance of the same name. The WorkloadDeployment
/// must have its finalizer, because it keeps the record of the copy.
fn is_replaced(deployment: &WorkloadDeployment, instance: &ObjectMeta) -> bool {
    let (wanted, uid) = (deployment.spec.desired_replicas(), &deployment.metadata.uid);
    let ordinal = instance
        .name
        .as_deref()
        .and_then(|name| instance_ordinal(&deployment.name_any(), name));
    uid.is_some()
        && controller_uid_of(instance) == uid.as_deref()
        && !is_terminating(deployment)
        && has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER)
        && ordinal.is_some_and(|ordinal| (0..wanted).contains(&ordinal))
        && !deployment.is_suspended()
        && deployment.spec.scale_settings.instance_management_policy == ORDERED_READY
        && wanted <= REPLICAS_MAX
}

#[cfg(test)]
mod tests;
