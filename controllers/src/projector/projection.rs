//! The body of a projection.

use api::{Instance, WorkloadDeployment};
use kube::Resource;
use serde_json::{Value, json};

use super::plan::Desired;

pub(super) fn projection_body(
    namespace: &str,
    name: &str,
    instance: &Instance,
    deployment: &WorkloadDeployment,
    desired: &Desired,
) -> Value {
    // This is not a controller reference, because the WorkloadDeployment does not control the projection. Garbage
    // collection deletes the projection with its owner.
    let owners: Vec<_> = deployment.owner_ref(&()).into_iter().collect();
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": desired.labels,
            "annotations": desired.annotations,
            "ownerReferences": owners,
        },
        "spec": instance.spec,
    })
}
