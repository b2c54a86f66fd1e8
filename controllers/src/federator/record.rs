//! The record of the hub namespace in a WorkloadDeployment. A customer can edit it, so it proves nothing.

use api::reasons::workload_deployment::HUB_NAMESPACE_CONTRADICTED;
use api::{HubNamespace, WorkloadDeployment, annotations, finalizers};
use kube::ResourceExt;

use super::plan::status::contradicted;
use crate::hub::identity::HubIdentity;
use crate::hub::upstream::Upstream;
use crate::objects::{Namespace, describe, is_terminating};
use crate::projects::ProjectCaches;
use crate::runtime::keys::ProjectKey;
use crate::runtime::write::{Collection, Writer, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Adds the finalizer, and records the hub and the hub namespace, in one write.
///
/// # Errors
///
/// The errors of [`Writer::add_finalizer`].
pub(super) async fn record(
    writer: &Writer,
    context: &ReconcileContext,
    upstream: &Collection<'_, WorkloadDeployment>,
    deployment: &WorkloadDeployment,
    hub: &HubIdentity,
    namespace: &HubNamespace,
) -> Result<WorkloadDeployment, ReconcileError> {
    let namespace = namespace.as_str().to_owned();
    let namespace = (annotations::FEDERATION_NAMESPACE.to_owned(), namespace);
    let hub = hub.uid();
    let hub = hub.map(|uid| (annotations::HUB_UID.to_owned(), uid.to_owned()));
    let record = [Some(namespace), hub].into_iter().flatten().collect();
    let finalizer = finalizers::FEDERATOR;
    writer
        .add_finalizer(context, upstream, deployment, finalizer, &record)
        .await
}

/// Checks that the project's Namespace or the labels of the hub namespace confirm the record. A terminating
/// WorkloadDeployment needs no Namespace (I-9).
///
/// # Errors
///
/// [`ReconcileError::NotYet`] if neither confirms it.
pub(super) fn require_confirmed_record(
    key: &ProjectKey,
    deployment: &WorkloadDeployment,
    derived: Option<&HubNamespace>,
    hub_namespace: Option<&Namespace>,
) -> Result<(), ReconcileError> {
    let upstream = Upstream {
        project: key.project.clone(),
        namespace: key.namespace.clone(),
    };
    if derived.is_some() || is_terminating(deployment) || upstream.is_proved_by(hub_namespace) {
        return Ok(());
    }
    Err(ReconcileError::NotYet {
        object: describe(deployment),
        missing: "its Namespace on the project plane".to_owned(),
    })
}

/// Shows in the status why nothing is written to the hub.
pub(super) async fn report_invalid_record(
    writer: &Writer,
    context: &ReconcileContext,
    project: &ProjectCaches,
    deployment: &WorkloadDeployment,
    problem: &ReconcileError,
) -> Result<(), ReconcileError> {
    let (problem, now) = (problem.to_string(), context.now());
    let status = contradicted(deployment, HUB_NAMESPACE_CONTRADICTED, &problem, now);
    if deployment.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let namespace = deployment.namespace().unwrap_or_default();
    let upstream = Collection::new(&project.client, &namespace, Some(&project.deployments));
    let patch = merge_patch(deployment.status.as_ref(), &status);
    writer
        .patch_status(context, &upstream, deployment, patch)
        .await
        .map(drop)
}
