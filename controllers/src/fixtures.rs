//! Objects for the tests of controllers.

pub(crate) mod servers;

use std::sync::Arc;

use api::condition::{Condition, ConditionStatus};
use api::{Instance, Workload, WorkloadDeployment, annotations, finalizers};
use apiserver::objects;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the time at which controllers reconcile in tests.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

/// Decodes an object from JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Returns a Workload `web` with these placements. Each has a name and cities.
pub(crate) fn workload(placements: &[(&str, &[&str])]) -> Workload {
    let mut body = objects::workload("default", "web", placements);
    body["metadata"]["uid"] = json!("workload-uid");
    body["metadata"]["generation"] = json!(3);
    body["metadata"]["finalizers"] = json!([finalizers::WORKLOAD_CONTROLLER]);
    object(body)
}

/// Returns a WorkloadDeployment of the Workload `web` in this namespace.
pub(crate) fn deployment(
    namespace: &str,
    name: &str,
    city: &str,
    replicas: i32,
) -> WorkloadDeployment {
    let mut body = objects::deployment(namespace, name, city, replicas);
    body["metadata"]["uid"] = json!(format!("{name}-uid"));
    body["metadata"]["generation"] = json!(5);
    object(body)
}

/// Returns an Instance without an owner.
pub(crate) fn instance(namespace: &str, name: &str) -> Instance {
    let mut body = objects::instance(namespace, name);
    body["metadata"]["uid"] = json!(format!("{name}-uid"));
    body["metadata"]["generation"] = json!(2);
    object(body)
}

/// Returns a condition that changed at the Unix epoch.
pub(crate) fn condition(type_: &str, holds: bool, observed: Option<i64>) -> Condition {
    let status = match holds {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    Condition::new(type_, status, "Because", "m", Timestamp::UNIX_EPOCH).observed(observed)
}

/// Returns the object with its deletion started.
pub(crate) fn terminating<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
    );
    object
}

/// Returns the object with this record of its hub, or without a record.
pub(crate) fn of_hub(mut object: Value, uid: Option<&str>) -> Value {
    let annotations = &mut object["metadata"]["annotations"];
    match uid {
        Some(uid) => annotations[annotations::HUB_UID] = json!(uid),
        None => drop(
            annotations
                .as_object_mut()
                .unwrap()
                .remove(annotations::HUB_UID),
        ),
    }
    object
}

/// Returns objects in the form in which caches store them.
pub(crate) fn shared<K>(objects: impl IntoIterator<Item = K>) -> Vec<Arc<K>> {
    objects.into_iter().map(Arc::new).collect()
}
