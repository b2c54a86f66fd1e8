//! Encoding of answers. See docs/concepts/interpreter.md.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::Simd;
use base64::engine::general_purpose::PAD;
use serde::Serialize;
use serde_json::Value;

use super::kind::InterpretedKind;
use super::operation::Operation;
use super::outcome::{Component, Dependencies, FieldOf, OperationOutcome, Requirements};
use super::request::RequestMeta;
use crate::error::InterpretError;

/// Value of `response.status.code` in a failed answer: HTTP 422. Karmada only prints this value.
const UNPROCESSABLE: i32 = 422;

/// The answer to one request: the body of the answer, and the values for logs and metrics.
#[derive(Debug)]
pub struct Interpretation {
    /// The operation. `None` if the operation is unknown.
    pub operation: Option<Operation>,
    /// The kind. `None` if this crate does not interpret the kind.
    pub kind: Option<InterpretedKind>,
    /// The `request.uid` of the request.
    pub uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The reason for the failure. `None` if the request succeeded.
    pub error: Option<InterpretError>,
    /// The `ResourceInterpreterContext` with the response, as JSON.
    pub body: Vec<u8>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct InterpretResponse<'a> {
    uid: &'a str,
    successful: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RequestStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_requirements: Option<FieldOf<Requirements, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<FieldOf<Vec<Component>, Vec<Value>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<FieldOf<Dependencies<'a>, Vec<Value>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthy: Option<bool>,
}

/// A view of Karmada's `RequestStatus`.
#[derive(Serialize)]
struct RequestStatus {
    message: String,
    code: i32,
}

/// Encodes the answer to a request.
pub(crate) fn encode(
    request: &RequestMeta<'_>,
    outcome: Result<OperationOutcome<'_>, InterpretError>,
) -> Interpretation {
    let error = outcome.as_ref().err().cloned();
    let mut response = InterpretResponse {
        uid: request.uid,
        successful: error.is_none(),
        ..InterpretResponse::default()
    };
    let mut last = LastField::None;
    match outcome {
        Ok(OperationOutcome::Patch(patch)) => {
            last = patch.into_json().map_or(LastField::None, LastField::Patch);
        }
        Ok(OperationOutcome::Status(status)) => last = LastField::Status(status),
        Ok(outcome) => response.fill(outcome),
        Err(error) => {
            response.status = Some(RequestStatus {
                message: error.to_string(),
                code: UNPROCESSABLE,
            });
        }
    }
    Interpretation {
        operation: request.operation,
        kind: request.kind,
        uid: request.uid.to_string(),
        namespace: request.namespace.to_string(),
        name: request.name.to_string(),
        error,
        body: write(&response, &last).unwrap_or_default(),
    }
}

/// The last field of an answer. Both values can be large, and need no escapes. They are appended without serde.
enum LastField<'a> {
    None,
    /// A JSON patch. The answer contains the patch as base64.
    Patch(Vec<u8>),
    /// The JSON text of a status.
    Status(Cow<'a, str>),
}

/// Writes the `ResourceInterpreterContext`.
fn write(response: &InterpretResponse<'_>, last: &LastField<'_>) -> serde_json::Result<Vec<u8>> {
    const START: &[u8] =
        br#"{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterContext","response":"#;
    const PATCH: &[u8] = br#","patchType":"JSONPatch","patch":""#;
    const STATUS: &[u8] = br#","rawStatus":"#;
    /// Size of an answer without its large parts, in bytes, rounded up. If an answer is larger, the buffer grows.
    const WITHOUT_LARGE_PARTS: usize = 512;
    let dependencies = response.dependencies.as_ref();
    let large_parts = match last {
        LastField::None => match dependencies {
            Some(FieldOf::Native(dependencies)) => dependencies.max_size(),
            Some(FieldOf::Script(_)) | None => 0,
        },
        LastField::Patch(patch) => base64_size(patch),
        LastField::Status(status) => status.len(),
    };
    let mut body = Vec::with_capacity(WITHOUT_LARGE_PARTS + large_parts);
    body.extend_from_slice(START);
    serde_json::to_writer(&mut body, response)?;
    // If there is a last field, removes the closing brace of the response object, so that the field can be appended.
    match last {
        LastField::None => {}
        LastField::Patch(patch) => {
            body.pop();
            body.extend_from_slice(PATCH);
            let (start, size) = (body.len(), base64_size(patch));
            body.resize(start + size, 0);
            let target = body.get_mut(start..).unwrap_or_default();
            let written = Simd::standard(PAD).encode_slice(patch, target);
            debug_assert_eq!(written, Ok(size));
            body.extend_from_slice(br#""}"#);
        }
        LastField::Status(status) => {
            body.pop();
            body.extend_from_slice(STATUS);
            body.extend_from_slice(status.as_bytes());
            body.push(b'}');
        }
    }
    body.push(b'}');
    Ok(body)
}

/// Returns the size of these bytes as base64, in bytes.
fn base64_size(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}

impl<'a> InterpretResponse<'a> {
    fn fill(&mut self, outcome: OperationOutcome<'a>) {
        match outcome {
            OperationOutcome::Replicas {
                replicas,
                requirements,
            } => {
                self.replicas = Some(replicas);
                self.replica_requirements = requirements.map(FieldOf::Native);
            }
            OperationOutcome::ScriptReplicas {
                replicas,
                requirements,
            } => {
                self.replicas = Some(replicas);
                self.replica_requirements = requirements.map(FieldOf::Script);
            }
            OperationOutcome::Components(components) => {
                self.components = Some(FieldOf::Native(components));
            }
            OperationOutcome::ScriptComponents(components) => {
                self.components = Some(FieldOf::Script(components));
            }
            // `write` appends these parts to the body.
            OperationOutcome::Patch(_) | OperationOutcome::Status(_) => {}
            OperationOutcome::Dependencies(dependencies) => {
                self.dependencies = Some(FieldOf::Native(dependencies));
            }
            OperationOutcome::ScriptDependencies(dependencies) => {
                self.dependencies = Some(FieldOf::Script(dependencies));
            }
            OperationOutcome::Health(healthy) => self.healthy = Some(healthy),
        }
    }
}
