//! The body of a copy, and the confirmation that its source in the cache is current.

use api::{HubNamespace, WorkloadDeployment};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::plan::DesiredCopy;
use crate::objects::describe;
use crate::runtime::ReconcileError;
use crate::runtime::write::Collection;

/// Reads the WorkloadDeployment from the project's API server. Succeeds if the cache is not behind in what the copy is
/// made from.
pub(super) async fn confirm(
    upstream: &Collection<'_, WorkloadDeployment>,
    cached: &WorkloadDeployment,
) -> Result<(), ReconcileError> {
    let current = upstream.read(&cached.name_any()).await?;
    let is_same = current.is_some_and(|current| {
        let (current, cached) = (&current.metadata, &cached.metadata);
        current.uid == cached.uid
            && current.generation == cached.generation
            && current.deletion_timestamp.is_some() == cached.deletion_timestamp.is_some()
    });
    match is_same {
        true => Ok(()),
        false => Err(ReconcileError::NotYet {
            object: describe(cached),
            missing: "the watch of the project to report its last change".to_owned(),
        }),
    }
}

pub(super) fn copy_body(
    deployment: &WorkloadDeployment,
    hub_namespace: &HubNamespace,
    desired: &DesiredCopy,
) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {
            "name": deployment.name_any(),
            "namespace": hub_namespace.as_str(),
            "labels": desired.labels,
            "annotations": desired.annotations,
        },
        "spec": deployment.spec,
    })
}
