//! Objects for the tests of plans.

use std::sync::Arc;

use api::condition::{Condition, ConditionStatus};
use api::{Instance, Workload, WorkloadDeployment};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A time at which plans are made.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

/// An object from its JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn template(image: &str) -> Value {
    json!({"spec": {
        "networkInterfaces": [{"network": {"name": "default"}}],
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": image}]},
        },
    }})
}

/// A Workload `web` with these placements: name and cities.
pub(crate) fn workload(placements: &[(&str, &[&str])]) -> Workload {
    let placements: Vec<_> = placements
        .iter()
        .map(|(name, cities)| json!({"name": name, "cityCodes": cities, "scaleSettings": scale(2)}))
        .collect();
    object(json!({
        "apiVersion": api::API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "workload-uid",
            "generation": 3,
            "finalizers": ["compute.datumapis.com/workload-controller"],
        },
        "spec": {"placements": placements, "template": template("app:1")},
    }))
}

/// A deployment of the Workload `web` in this namespace.
pub(crate) fn deployment(
    namespace: &str,
    name: &str,
    city: &str,
    replicas: i32,
) -> WorkloadDeployment {
    object(json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{name}-uid"), "generation": 5},
        "spec": {
            "cityCode": city,
            "placementName": "us",
            "scaleSettings": scale(replicas),
            "template": template("app:1"),
            "workloadRef": {"name": "web", "uid": "workload-uid"},
        },
    }))
}

/// An Instance without an owner.
pub(crate) fn instance(namespace: &str, name: &str) -> Instance {
    object(json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{name}-uid"), "generation": 2},
        "spec": template("app:1")["spec"],
    }))
}

fn scale(replicas: i32) -> Value {
    json!({"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"})
}

/// A condition with a time of its own.
pub(crate) fn condition(type_: &str, holds: bool, observed: Option<i64>) -> Condition {
    let status = match holds {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    Condition::new(type_, status, "Because", "m", Timestamp::UNIX_EPOCH).observed(observed)
}

/// Begins the deletion of an object.
pub(crate) fn terminating<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
    );
    object
}

/// An object as caches give it.
pub(crate) fn shared<K>(objects: impl IntoIterator<Item = K>) -> Vec<Arc<K>> {
    objects.into_iter().map(Arc::new).collect()
}
