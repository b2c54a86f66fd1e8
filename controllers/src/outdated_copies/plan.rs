//! Decides whether a deleted Instance waits for the hub.

use std::time::Duration;

use api::{WorkloadDeployment, finalizers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::wanted_ordinal;
use crate::objects::{controller_uid_of, has_finalizer, is_terminating};

/// How long an Instance that is replaced waits for the hub. Most interruptions are shorter.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The next action for a terminating Instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing replaces it, so it waits for the hub.
    Leave,
    /// Look again after this time.
    Wait(Duration),
    /// Release it, if the hub does not answer.
    Release,
}

/// Returns whether the Instance is deleted as soon as the write-back has removed its finalizer.
pub(super) fn waits(instance: &ObjectMeta) -> bool {
    let mut finalizers = instance.finalizers.iter().flatten();
    instance.deletion_timestamp.is_some()
        && finalizers.any(|it| it == finalizers::INSTANCE_CONTROLLER)
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
    let uid = &deployment.metadata.uid;
    let name = instance.name.as_deref().unwrap_or_default();
    uid.is_some()
        && controller_uid_of(instance) == uid.as_deref()
        && !is_terminating(deployment)
        && !deployment.is_ending()
        && has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER)
        && deployment.is_rolled_out()
        && !deployment.is_suspended()
        && wanted_ordinal(deployment, name).is_some()
}

#[cfg(test)]
mod tests;
