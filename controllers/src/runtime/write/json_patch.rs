//! JSON patches (RFC 6902).

use kube::ResourceExt;
use kube::api::Patch;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::runtime::error::ReconcileError;

/// Returns the operation of a JSON patch that makes the patch fail with a conflict if the object has changed. A failed
/// `test` would look like a refusal.
pub(super) fn at_version(object: &impl ResourceExt) -> Value {
    let version = object.resource_version();
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version})
}

/// Returns a JSON patch of these operations.
pub(super) fn json_patch(operations: Value) -> Result<Patch<Value>, ReconcileError> {
    Ok(Patch::Json(decode(operations)?))
}

/// Decodes a body that this process created. This fails only if an identity in the body is not text.
pub(super) fn decode<T: DeserializeOwned>(body: Value) -> Result<T, ReconcileError> {
    serde_json::from_value(body)
        .map_err(|error| ReconcileError::api("encode a write", kube::Error::SerdeError(error)))
}
