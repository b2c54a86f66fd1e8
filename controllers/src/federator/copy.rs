//! Builds the copy of a WorkloadDeployment that the federator applies on the hub.

use api::{HubNamespace, WorkloadDeployment};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::plan::DesiredCopy;
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
