//! Encoding of answers. See docs/concepts/interpreter.md.

use base64::Engine;
use base64::engine::Simd;
use base64::engine::general_purpose::PAD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::kind::InterpretedKind;
use super::operation::Operation;
use super::outcome::{Component, Dependency, OperationOutcome, Requirements};
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
    replica_requirements: Option<Requirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Vec<Component>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<Vec<Dependency>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_status: Option<Box<RawValue>>,
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
    outcome: Result<OperationOutcome, InterpretError>,
) -> Interpretation {
    let error = outcome.as_ref().err().cloned();
    let mut response = InterpretResponse {
        uid: request.uid,
        successful: error.is_none(),
        ..InterpretResponse::default()
    };
    let mut patch = None;
    match outcome {
        Ok(OperationOutcome::Patch(found)) => patch = found.into_json(),
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
        body: write(&response, patch.as_deref()).unwrap_or_default(),
    }
}

/// Writes the `ResourceInterpreterContext`. The patch can be large, so it is appended without serde. The patch is
/// base64, which has no characters that JSON escapes.
fn write(response: &InterpretResponse<'_>, patch: Option<&[u8]>) -> serde_json::Result<Vec<u8>> {
    const START: &[u8] =
        br#"{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterContext","response":"#;
    const PATCH: &[u8] = br#","patchType":"JSONPatch","patch":""#;
    /// Size of an answer without its patch, in bytes, rounded up. If an answer is larger, the buffer grows.
    const WITHOUT_PATCH: usize = 512;
    let encoded = patch.map_or(0, |patch| patch.len().div_ceil(3) * 4);
    let mut body = Vec::with_capacity(WITHOUT_PATCH + encoded);
    body.extend_from_slice(START);
    serde_json::to_writer(&mut body, response)?;
    if let Some(patch) = patch {
        // Removes the closing brace of the response object, so that fields can be appended.
        body.pop();
        body.extend_from_slice(PATCH);
        let start = body.len();
        body.resize(start + encoded, 0);
        let target = body.get_mut(start..).unwrap_or_default();
        let written = Simd::standard(PAD).encode_slice(patch, target);
        debug_assert_eq!(written, Ok(encoded));
        body.extend_from_slice(br#""}"#);
    }
    body.push(b'}');
    Ok(body)
}

impl InterpretResponse<'_> {
    fn fill(&mut self, outcome: OperationOutcome) {
        match outcome {
            OperationOutcome::Replicas {
                replicas,
                requirements,
            } => {
                self.replicas = Some(replicas);
                self.replica_requirements = requirements;
            }
            OperationOutcome::Components(components) => self.components = Some(components),
            // `write` appends the patch to the body.
            OperationOutcome::Patch(_) => {}
            OperationOutcome::Dependencies(dependencies) => self.dependencies = Some(dependencies),
            OperationOutcome::Status(status) => self.raw_status = Some(status),
            OperationOutcome::Health(healthy) => self.healthy = Some(healthy),
        }
    }
}
