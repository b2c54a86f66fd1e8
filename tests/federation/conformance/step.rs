//! Defines one request of the comparison, and functions that build requests.

use apiserver::objects;
use http::Method;
use serde_json::{Value, json};

/// One request.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) accept: &'static str,
    pub(super) body: Value,
    /// The name of the answer's metadata in later requests.
    pub(super) saves: &'static str,
}

const JSON: &str = "application/json";
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const NETWORKS: &str =
    "/apis/networking.datumapis.com/v1alpha/namespaces/default/networks";
pub(super) const DEPLOYMENTS: &str =
    "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloaddeployments";

impl Step {
    pub(super) fn saves(mut self, name: &'static str) -> Self {
        self.saves = name;
        self
    }
}

pub(super) fn step(
    name: &'static str,
    method: Method,
    path: impl Into<String>,
    content_type: &'static str,
    body: Value,
) -> Step {
    Step {
        name,
        method,
        path: path.into(),
        content_type,
        accept: JSON,
        body,
        saves: "",
    }
}

pub(super) fn get(name: &'static str, path: impl Into<String>) -> Step {
    step(name, Method::GET, path, JSON, Value::Null)
}

pub(super) fn post(name: &'static str, path: &str, body: Value) -> Step {
    let path = format!("{path}?fieldManager=creator");
    step(name, Method::POST, path, JSON, body)
}

pub(super) fn put(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    step(name, Method::PUT, path, JSON, body)
}

pub(super) fn merge(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    let content_type = "application/merge-patch+json";
    step(name, Method::PATCH, path, content_type, body)
}

pub(super) fn json_patch(name: &'static str, path: impl Into<String>, body: Value) -> Step {
    let content_type = "application/json-patch+json";
    step(name, Method::PATCH, path, content_type, body)
}

/// Returns a server-side apply. `manager` is the value of the parameter `fieldManager`. The parameter `force` may
/// follow this value.
pub(super) fn apply(name: &'static str, path: &str, manager: &str, body: Value) -> Step {
    let path = format!("{path}?fieldManager={manager}");
    let content_type = "application/apply-patch+yaml";
    step(name, Method::PATCH, path, content_type, body)
}

pub(super) fn delete(name: &'static str, path: impl Into<String>, options: Value) -> Step {
    step(name, Method::DELETE, path, JSON, options)
}

pub(super) fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn network(name: &str) -> Value {
    objects::network("default", name)
}
