//! Builds the copy of a WorkloadDeployment that the federator applies on the hub, and compares it with the stored copy.

use api::{HubNamespace, WorkloadDeployment};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::plan::{DesiredCopy, same_referenced_data};
use crate::runtime::write::Stored;

/// Returns how the hub has stored the copy of a WorkloadDeployment.
pub(super) fn compare_copy(copy: &WorkloadDeployment, deployment: &WorkloadDeployment) -> Stored {
    match same_referenced_data(copy, deployment) {
        true => Stored::compare(&copy.spec, &deployment.spec),
        false => Stored::Otherwise,
    }
}

/// Returns the body of an apply. The apply succeeds only on this version of the existing copy. If the cache of the hub
/// is behind, the copy may carry a newer generation of the project than the cache of the project has.
pub(super) fn copy_body(
    deployment: &WorkloadDeployment,
    hub_namespace: &HubNamespace,
    existing: Option<&WorkloadDeployment>,
    desired: &DesiredCopy,
) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {
            "name": deployment.name_any(),
            "namespace": hub_namespace.as_str(),
            "resourceVersion": existing.and_then(ResourceExt::resource_version),
            "labels": desired.labels,
            "annotations": desired.annotations,
        },
        "spec": deployment.spec,
    })
}
