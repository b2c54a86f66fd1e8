//! The answer to a request, as Karmada takes it (karmada.md 1.3).

use base64::Engine;
use base64::engine::Simd;
use base64::engine::general_purpose::PAD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Component, Dependency, Kind, Operation, Outcome, Request, Requirements};
use crate::error::InterpretError;

/// `response.status.code` of a request that cannot be answered. Karmada only shows it.
const UNPROCESSABLE: i32 = 422;

/// An answered request: the body to send, and what there is to say about it in logs and metrics.
#[derive(Debug)]
pub struct Interpretation {
    /// The operation, where it is a known one.
    pub operation: Option<Operation>,
    /// The kind, where it is a known one.
    pub kind: Option<Kind>,
    /// `request.uid`.
    pub uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Why the request failed, where it did.
    pub error: Option<InterpretError>,
    /// The `ResourceInterpreterContext` with the response, as JSON.
    pub body: Vec<u8>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    successful: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ResponseStatus>,
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

#[derive(Serialize)]
struct ResponseStatus {
    message: String,
    code: i32,
}

/// Writes the answer.
pub(crate) fn encode<O, I, P>(
    request: &Request<'_, O, I, P>,
    outcome: Result<Outcome, InterpretError>,
) -> Interpretation {
    let error = outcome.as_ref().err().cloned();
    let mut response = Response {
        uid: &request.uid,
        successful: error.is_none(),
        ..Response::default()
    };
    let mut patch = None;
    match outcome {
        Ok(Outcome::Patch(found)) => patch = found.into_json(),
        Ok(outcome) => response.fill(outcome),
        Err(error) => {
            response.status = Some(ResponseStatus {
                message: error.to_string(),
                code: UNPROCESSABLE,
            });
        }
    }
    Interpretation {
        operation: request.operation().ok(),
        kind: request.kind().ok(),
        uid: request.uid.to_string(),
        namespace: request.namespace.to_string(),
        name: request.name.to_string(),
        error,
        body: write(&response, patch.as_deref()).unwrap_or_default(),
    }
}

/// Writes the `ResourceInterpreterContext`. The patch comes last: it can be large, and base64 needs no search for what must
/// be escaped.
fn write(response: &Response<'_>, patch: Option<&[u8]>) -> serde_json::Result<Vec<u8>> {
    const START: &[u8] =
        br#"{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterContext","response":"#;
    const PATCH: &[u8] = br#","patchType":"JSONPatch","patch":""#;
    /// Bytes of an answer without large parts.
    const USUAL: usize = 512;
    let encoded = patch.map_or(0, |patch| patch.len().div_ceil(3) * 4);
    let mut body = Vec::with_capacity(USUAL + encoded);
    body.extend_from_slice(START);
    serde_json::to_writer(&mut body, response)?;
    if let Some(patch) = patch {
        // The response goes on.
        body.pop();
        body.extend_from_slice(PATCH);
        let start = body.len();
        body.resize(start + encoded, 0);
        let place = body.get_mut(start..).unwrap_or_default();
        let written = Simd::standard(PAD).encode_slice(patch, place);
        debug_assert_eq!(written, Ok(encoded));
        body.extend_from_slice(br#""}"#);
    }
    body.push(b'}');
    Ok(body)
}

impl Response<'_> {
    fn fill(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Replicas {
                replicas,
                requirements,
            } => {
                self.replicas = Some(replicas);
                self.replica_requirements = requirements;
            }
            Outcome::Components(components) => self.components = Some(components),
            // It is appended, and not a field.
            Outcome::Patch(_) => {}
            Outcome::Dependencies(dependencies) => self.dependencies = Some(dependencies),
            Outcome::Status(status) => self.raw_status = Some(status),
            Outcome::Health(healthy) => self.healthy = Some(healthy),
        }
    }
}
