//! Decides whether a terminating Instance is replaced, so that it need not wait for a hub that does not answer.

use api::{WorkloadDeployment, finalizers};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::names::instance_ordinal;
use crate::objects::{controller_uid_of, has_finalizer, is_terminating};

/// How long an Instance that is replaced waits for the hub. Most interruptions are shorter.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// Returns whether an Instance has waited for the hub for long enough, and its WorkloadDeployment makes another one of
/// the same name. The WorkloadDeployment must have its finalizer, because it keeps the record of the copy.
pub(crate) fn is_replaced(
    deployment: &WorkloadDeployment,
    instance: &ObjectMeta,
    now: Timestamp,
) -> bool {
    let wanted = 0..deployment.spec.desired_replicas();
    let ordinal = instance
        .name
        .as_deref()
        .and_then(|name| instance_ordinal(&deployment.name_any(), name));
    let since = instance.deletion_timestamp.as_ref();
    controller_uid_of(instance).is_some_and(|uid| deployment.uid().as_deref() == Some(uid))
        && !is_terminating(deployment)
        && has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER)
        && ordinal.is_some_and(|ordinal| wanted.contains(&ordinal))
        && since.is_some_and(|since| now.duration_since(since.0) >= PATIENCE)
}

#[cfg(test)]
mod tests;
