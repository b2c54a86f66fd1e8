//! The objects of the tests, and the requests about them.

use harness::installation::{NETWORK, PROJECT};
use harness::milo::{MiloUser, PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE};
use harness::objects::apply;
use harness::workloads::template;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::CITY;

/// Name of the interpreter's registration on the hub.
pub(super) const REGISTRATION: &str = "compute-federation";
/// Name of an object on the hub that no controller of compute-federation knows.
pub(super) const INTERPRETED: &str = "interpreted";

/// Returns a Workload with one placement.
pub(super) fn workload(name: &str, cities: &[&str], replicas: i32) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "placements": [{
                "name": "us",
                "cityCodes": cities,
                "scaleSettings": {"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"},
            }],
            "template": template(NETWORK),
        },
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {"name": INTERPRETED, "namespace": "default"},
        "spec": {
            "cityCode": CITY,
            "placementName": "us",
            "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            "template": template(NETWORK),
            "workloadRef": {"name": "none", "uid": "00000000-0000-0000-0000-000000000001"},
        },
    })
}

/// Returns the API of Karmada's ResourceBindings.
pub(super) fn bindings(hub: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
    Api::namespaced_with(hub.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// Creates an object on the hub for which Karmada asks the interpreter. It is placed in no cell.
pub(super) async fn create_interpreted(hub: &Client) -> anyhow::Result<()> {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": INTERPRETED, "namespace": "default"},
        "spec": {
            "placement": {"clusterAffinity": {"clusterNames": ["none"]}},
            "resourceSelectors": [
                {"apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": INTERPRETED},
            ],
        },
    });
    apply(hub, &policy).await?;
    apply(hub, &deployment()).await.map(drop)
}

/// Returns a request of Karmada about the replicas of an object.
pub(super) fn interpretation() -> Value {
    let kind = json!({
        "group": "compute.datumapis.com",
        "version": "v1alpha",
        "kind": "WorkloadDeployment",
    });
    json!({"request": {
        "uid": "of-the-test",
        "kind": kind,
        "operation": "InterpretReplica",
        "object": deployment(),
    }})
}

/// Returns a request of the project's API server when this user creates a Workload.
pub(super) fn admission_review(user: &MiloUser) -> Value {
    let object = workload("reviewed", &[CITY], 1);
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "of-the-test",
            "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"},
            "resource": {"group": "compute.datumapis.com", "version": "v1alpha", "resource": "workloads"},
            "name": object["metadata"]["name"],
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {
                "username": user.name,
                "uid": user.uid,
                "extra": {
                    PARENT_TYPE: ["Project"],
                    PARENT_NAME: [PROJECT],
                    PARENT_API_GROUP: ["resourcemanager.miloapis.com"],
                },
            },
            "object": object,
            "oldObject": null,
            "dryRun": true,
        },
    })
}
