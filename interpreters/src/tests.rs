//! Tests through the wire protocol.

mod aggregate_status;
mod fast_and_general;
mod instance;
mod laws;
mod protocol;
mod work;
mod workload_deployment;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The time of all calls in the tests.
const NOW: &str = "2026-11-21T10:00:00Z";

/// Returns a request about an object of this kind. The fields of `more` are added to `request`.
fn request(kind: &str, operation: &str, object: &Value, more: &Value) -> Value {
    let mut request = json!({
        "uid": "u1",
        "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": kind},
        "name": "web-default-dfw",
        "namespace": "ns-1",
        "operation": operation,
        "object": object,
        "replicas": 0,
    });
    let fields = request.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext",
        "request": request,
    })
}

/// Returns the `response` of a call. Panics if the call is not successful.
fn call(kind: &str, operation: &str, object: &Value, more: &Value) -> Value {
    call_at(kind, operation, object, more, NOW)
}

fn call_at(kind: &str, operation: &str, object: &Value, more: &Value, now: &str) -> Value {
    let body = request(kind, operation, object, more).to_string();
    let now: Timestamp = now.parse().unwrap();
    let interpretation = crate::interpret(body.as_bytes(), now).unwrap();
    let mut answer: Value = serde_json::from_slice(&interpretation.body).unwrap();
    let response = answer["response"].take();
    assert_eq!(response["successful"], true, "{response}");
    response
}

/// Returns the operations of the patch in a response. Returns an empty list if the response has no patch.
fn patch(response: &Value) -> Value {
    let Some(text) = response.get("patch") else {
        assert!(response.get("patchType").is_none());
        return json!([]);
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}
