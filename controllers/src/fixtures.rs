//! Objects for the tests of controllers.

pub(crate) mod servers;

use std::sync::Arc;

use api::condition::{Condition, ConditionStatus};
use api::{Instance, Workload, WorkloadDeployment, finalizers};
use apiserver::objects;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The time at which controllers reconcile in tests.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

/// An object from its JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A Workload `web` with these placements: name and cities.
pub(crate) fn workload(placements: &[(&str, &[&str])]) -> Workload {
    let mut body = objects::workload("default", "web", placements);
    body["metadata"]["uid"] = json!("workload-uid");
    body["metadata"]["generation"] = json!(3);
    body["metadata"]["finalizers"] = json!([finalizers::WORKLOAD_CONTROLLER]);
    object(body)
}

/// A deployment of the Workload `web` in this namespace.
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

/// An Instance without an owner.
pub(crate) fn instance(namespace: &str, name: &str) -> Instance {
    let mut body = objects::instance(namespace, name);
    body["metadata"]["uid"] = json!(format!("{name}-uid"));
    body["metadata"]["generation"] = json!(2);
    object(body)
}

/// A condition that changed at the Unix epoch.
pub(crate) fn condition(type_: &str, holds: bool, observed: Option<i64>) -> Condition {
    let status = match holds {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    Condition::new(type_, status, "Because", "m", Timestamp::UNIX_EPOCH).observed(observed)
}

/// Returns the object with its deletion begun.
pub(crate) fn terminating<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
    );
    object
}

/// Returns objects as caches hold them.
pub(crate) fn shared<K>(objects: impl IntoIterator<Item = K>) -> Vec<Arc<K>> {
    objects.into_iter().map(Arc::new).collect()
}
