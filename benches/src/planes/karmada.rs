//! Simulates Karmada on the hub: the cells, and a ResourceBinding for each WorkloadDeployment.

use api::{annotations, labels};
use apiserver::{ApiServer, Key, KindId, ObjectChange, ObjectPart, text, time_now};
use serde_json::{Value, json};

const POLICY: &str = "propagationpolicy.karmada.io";

/// The names of the cells and the codes of their cities.
const CELLS: [(&str, &str); 2] = [("dfw1", "DFW"), ("ord1", "ORD")];

pub(super) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": reason, "lastTransitionTime": time_now()})
}

/// Creates the cells on a hub.
pub(super) fn join_cells(hub: &ApiServer) {
    for (name, city) in CELLS {
        join(hub, name, &json!({labels::CITY_CODE: city}));
    }
}

/// Creates a lower hub on a hub. Its city has the same name in upper case.
pub(super) fn join_lower_hub(hub: &ApiServer, name: &str) {
    let labels = json!({labels::CITY_CODE: name.to_uppercase(), labels::LOWER_HUB: "true"});
    join(hub, name, &labels);
}

fn join(hub: &ApiServer, name: &str, labels: &Value) {
    let cluster = json!({
        "metadata": {"labels": labels},
        "spec": {"syncMode": "Push"},
        "status": cluster_status(true),
    });
    hub.seed(KindId::named("Cluster"), "", name, cluster);
}

/// Returns the status of a Cluster.
pub(super) fn cluster_status(is_ready: bool) -> Value {
    let ready = match is_ready {
        true => condition("Ready", "True", "ClusterReady"),
        false => condition("Ready", "False", "ClusterNotReachable"),
    };
    json!({"conditions": [ready]})
}

/// Returns the Cluster that serves a city.
fn cluster_of(hub: &ApiServer, city: &str) -> Option<String> {
    if let Some((cell, _)) = CELLS.iter().find(|(_, of)| *of == city) {
        return Some((*cell).to_owned());
    }
    let key = (String::new(), city.to_lowercase());
    let lower_hub = hub.stored(KindId::named("Cluster"), &key);
    lower_hub.map(|_| key.1)
}

/// Returns the item of a Cluster in a binding.
pub(super) fn item(cluster: &str, status: &Value) -> Value {
    json!({"applied": true, "clusterName": cluster, "health": "Healthy", "status": status})
}

/// Places a new WorkloadDeployment in the cell of its city, if there is a policy for the city.
pub(super) fn place(hub: &ApiServer, key: &Key, copy: &Value) {
    let (namespace, name) = key;
    let city = copy["metadata"]["labels"][labels::CITY_CODE]
        .as_str()
        .unwrap_or_default();
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
    let cell = cluster_of(hub, city);
    let (api_version, kind) = ("compute.datumapis.com/v1alpha", "WorkloadDeployment");
    let uid = text(copy, "/metadata/uid");
    let (scheduled, status) = match &cell {
        Some(cell) => {
            let status = json!({
                "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0, "replicas": 0,
                "resourceTemplateGeneration": copy["metadata"]["generation"],
            });
            (
                condition("Scheduled", "True", "Success"),
                json!([item(cell, &status)]),
            )
        }
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

/// Reports that the cells have ended the instances of a WorkloadDeployment, if the project deletes it.
pub(super) fn end(hub: &ApiServer, (namespace, name): &Key, copy: &Value) {
    if copy["metadata"]["annotations"][annotations::ENDING].is_null() {
        return;
    }
    let bindings = KindId::named("ResourceBinding");
    let key = (namespace.clone(), format!("{name}-workloaddeployment"));
    let Some(binding) = hub.stored(bindings, &key) else {
        return;
    };
    let binding = binding.value();
    let ended = json!({
        "generation": 1, "observedGeneration": 1, "replicas": 0,
        "resourceTemplateGeneration": copy["metadata"]["generation"],
    });
    let items = binding["status"]["aggregatedStatus"].as_array();
    let items = items.into_iter().flatten();
    let items: Vec<_> = items
        .map(|it| item(it["clusterName"].as_str().unwrap_or_default(), &ended))
        .collect();
    let ended = ObjectChange::Merge(json!({"status": {"aggregatedStatus": items}}));
    // If the binding has been deleted in the meantime, nothing is reported.
    hub.change(bindings, &key, ObjectPart::Status, ended).ok();
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
