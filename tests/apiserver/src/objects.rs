//! Objects for tests, as JSON. All crates share these functions.

use serde_json::{Value, json};

const COMPUTE: &str = "compute.datumapis.com/v1alpha";
const NETWORKING: &str = "networking.datumapis.com/v1alpha";

/// Returns a condition with the reason `Because`.
pub fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "It is so.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Returns a Namespace.
pub fn namespace(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid}})
}

/// Returns a Milo Project whose condition `Ready` has this status.
pub fn project(name: &str, uid: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name, "uid": uid},
        "status": {"conditions": [condition("Ready", ready)]},
    })
}

/// Returns a LocationBinding of a city. Its condition `Available` has this status.
pub fn location_binding(name: &str, city: &str, available: &str) -> Value {
    json!({
        "apiVersion": NETWORKING,
        "kind": "LocationBinding",
        "metadata": {"name": name, "uid": name},
        "spec": {"locationRef": {"name": name}, "topology": {"topology.datum.net/city-code": city}},
        "status": {"conditions": [condition("Available", available)]},
    })
}

/// Returns a Network.
pub fn network(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": NETWORKING,
        "kind": "Network",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ipam": {"mode": "Auto"}},
    })
}

/// Returns a template of Instances. Each Instance runs one container with this image in the network `default`.
pub fn template(image: &str) -> Value {
    json!({"spec": {
        "networkInterfaces": [{"network": {"name": "default"}}],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": image}]},
        },
    }})
}

/// Returns scale settings with this minimum number of replicas.
pub fn scale(replicas: i32) -> Value {
    json!({"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"})
}

/// Returns a Workload with these placements. A placement is a name and a list of cities, and has two replicas in each
/// city.
pub fn workload(namespace: &str, name: &str, placements: &[(&str, &[&str])]) -> Value {
    let placements: Vec<_> = placements
        .iter()
        .map(|(name, cities)| json!({"name": name, "cityCodes": cities, "scaleSettings": scale(2)}))
        .collect();
    json!({
        "apiVersion": COMPUTE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"placements": placements, "template": template("app:1")},
    })
}

/// Returns a WorkloadDeployment for the placement `us` of the Workload `web`, which has the UID `workload-uid`.
pub fn deployment(namespace: &str, name: &str, city: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "WorkloadDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "cityCode": city,
            "placementName": "us",
            "scaleSettings": scale(replicas),
            "template": template("app:1"),
            "workloadRef": {"name": "web", "uid": "workload-uid"},
        },
    })
}

/// Returns an Instance without an owner.
pub fn instance(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "Instance",
        "metadata": {"name": name, "namespace": namespace},
        "spec": template("app:1")["spec"],
    })
}
