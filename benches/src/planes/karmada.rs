//! Simulates Karmada on the hub: the cells, and a ResourceBinding for each WorkloadDeployment.

use apiserver::{ApiServer, Key, KindId, ObjectChange, ObjectPart, text, time_now};
use serde_json::{Value, json};

const CITY_CODE: &str = "topology.datum.net/city-code";
const POLICY: &str = "propagationpolicy.karmada.io";

/// The names of the cells and the codes of their cities.
const CELLS: [(&str, &str); 2] = [("dfw1", "DFW"), ("ord1", "ORD")];

pub(super) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": reason, "lastTransitionTime": time_now()})
}

/// Creates the cells on a hub.
pub(super) fn join_cells(hub: &ApiServer) {
    for (name, city) in CELLS {
        let cluster = json!({
            "metadata": {"labels": {CITY_CODE: city}},
            "spec": {"syncMode": "Push"},
            "status": {"conditions": [condition("Ready", "True", "ClusterReady")]},
        });
        hub.seed(KindId::named("Cluster"), "", name, cluster);
    }
}

/// Places a new WorkloadDeployment in the cell of its city, if there is a policy for the city.
pub(super) fn place(hub: &ApiServer, key: &Key, copy: &Value) {
    let (namespace, name) = key;
    let labels = &copy["metadata"]["labels"];
    let city = labels[CITY_CODE].as_str().unwrap_or_default();
    let policy = format!("city-{}", city.to_lowercase());
    let by_policy = (namespace.clone(), policy.clone());
    let policies = KindId::named("PropagationPolicy");
    if hub.stored(policies, &by_policy).is_none() {
        return;
    }
    let claim = json!({format!("{POLICY}/name"): policy, format!("{POLICY}/namespace"): namespace});
    let deployments = KindId::named("WorkloadDeployment");
    let claimed = ObjectChange::Merge(json!({"metadata": {"annotations": claim}}));
    // If the WorkloadDeployment has been deleted in the meantime, it is not placed.
    if hub
        .change(deployments, key, ObjectPart::Main, claimed)
        .is_err()
    {
        return;
    }
    let cell = CELLS
        .iter()
        .find(|(_, of)| *of == city)
        .map(|(cell, _)| cell);
    let (api_version, kind) = ("compute.datumapis.com/v1alpha", "WorkloadDeployment");
    let uid = text(copy, "/metadata/uid");
    let (scheduled, status) = match cell {
        Some(cell) => (
            condition("Scheduled", "True", "Success"),
            json!([{"applied": true, "clusterName": cell, "health": "Healthy", "status": {
                "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0, "replicas": 0,
                "resourceTemplateGeneration": copy["metadata"]["generation"],
            }}]),
        ),
        None => (condition("Scheduled", "False", "NoClusterFit"), Value::Null),
    };
    let clusters = cell.map(|cell| json!({"name": cell}));
    let binding = json!({
        "metadata": {
            "annotations": claim,
            "ownerReferences": [{
                "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
                "blockOwnerDeletion": true, "controller": true,
            }],
        },
        "spec": {
            "clusters": clusters.as_slice(),
            "conflictResolution": "Abort",
            "propagateDeps": true,
            "resource": {
                "apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "uid": uid,
            },
            "schedulerName": "default-scheduler",
        },
        "status": {
            "aggregatedStatus": status,
            "conditions": [scheduled],
            "schedulerObservedGeneration": 1,
        },
    });
    let name = format!("{name}-workloaddeployment");
    hub.seed(KindId::named("ResourceBinding"), namespace, &name, binding);
}

/// Returns the status of a WorkloadDeployment whose cell has this number of instances. All instances are ready.
pub(super) fn report(copy: &Value, instances: u64) -> Value {
    let generation = &copy["metadata"]["generation"];
    let conditions = ["Available", "ReplicasReady"].map(|type_| {
        let mut condition = condition(type_, "True", "StableInstanceFound");
        condition["observedGeneration"] = generation.clone();
        condition
    });
    json!({"status": {
        "conditions": conditions,
        "currentReplicas": instances,
        "desiredReplicas": instances,
        "observedGeneration": generation,
        "readyReplicas": instances,
        "replicas": instances,
    }})
}
