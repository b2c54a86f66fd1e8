//! The caller's side of the protocol (docs/concepts/interpreter.md): encodes requests, and decodes answers.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::review::Operation;

/// A request about one object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The object.
    pub object: &'a Value,
    /// The object in the cell, for Retain.
    pub observed: Option<&'a Value>,
    /// The statuses of the cells, for AggregateStatus.
    pub items: &'a [Value],
    /// For ReviseReplica.
    pub replicas: Option<i32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestBody<'a, T> {
    uid: &'static str,
    kind: Value,
    name: &'a str,
    namespace: &'a str,
    operation: &'static str,
    object: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_object: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i32>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    aggregated_status: &'a [Value],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestReview<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    request: RequestBody<'a, T>,
}

impl Request<'_> {
    /// Returns the body of the request.
    ///
    /// # Errors
    ///
    /// If a value cannot be written as JSON.
    pub fn body(&self) -> serde_json::Result<Vec<u8>> {
        self.body_with(self.object, self.observed)
    }

    /// Returns the body of the request, with the objects in a form that is faster to write. They must be the objects of
    /// the request.
    ///
    /// # Errors
    ///
    /// If a value cannot be written as JSON.
    pub(crate) fn body_with<T: Serialize>(
        &self,
        object: &T,
        observed: Option<&T>,
    ) -> serde_json::Result<Vec<u8>> {
        let text = |pointer: &str| {
            let value = self.object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default()
        };
        let api_version = text("/apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        serde_json::to_vec(&RequestReview {
            api_version: "config.karmada.io/v1alpha1",
            kind: "ResourceInterpreterContext",
            request: RequestBody {
                uid: "caller",
                kind: json!({"group": group, "version": version, "kind": text("/kind")}),
                name: text("/metadata/name"),
                namespace: text("/metadata/namespace"),
                operation: self.operation.as_str(),
                object,
                observed_object: observed,
                replicas: self.replicas,
                aggregated_status: self.items,
            },
        })
    }
}

/// The answer of an interpreter about one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<'a> {
    /// Name of the operation.
    pub operation: &'static str,
    /// The fields of the answer, such as `replicas` or `healthy`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
    /// The JSON patch (RFC 6902) of an operation that changes the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    /// The object after the patch. It is the object of the request if the patch is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Cow<'a, Value>>,
}

/// An answer cannot be used.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// The body is not an answer of the protocol.
    #[error("the answer: {0}")]
    Malformed(#[from] serde_json::Error),
    /// `response.patch` is not base64.
    #[error("the patch of the answer: {0}")]
    NotBase64(#[from] base64::DecodeError),
    /// The patch does not apply to the object.
    #[error("the patch of the answer: {0}")]
    DoesNotApply(#[from] json_patch::PatchError),
}

#[derive(Deserialize)]
struct Review {
    response: Map<String, Value>,
}

/// Fields of a response that say nothing about the object, and the encoded patch.
const OF_PROTOCOL: [&str; 5] = ["uid", "successful", "status", "patchType", "patch"];

impl<'a> Answer<'a> {
    /// Decodes the body of an answer that succeeded. `object` is the object of the request.
    ///
    /// # Errors
    ///
    /// [`AnswerError`].
    pub fn decode(
        operation: Operation,
        body: &[u8],
        object: &'a Value,
    ) -> Result<Self, AnswerError> {
        let Review { response } = serde_json::from_slice(body)?;
        let mut fields = response;
        let patch = fields.get("patch").map(Option::<String>::deserialize);
        let patch = patch.transpose()?.flatten();
        fields.retain(|field, _| !OF_PROTOCOL.contains(&field.as_str()));
        let mut answer = Self {
            operation: operation.as_str(),
            fields,
            patch: None,
            object: None,
        };
        if operation.changes_object() {
            let patch = match patch {
                Some(patch) => serde_json::from_slice(&STANDARD.decode(patch)?)?,
                None => Patch::default(),
            };
            let mut changed = Cow::Borrowed(object);
            if !patch.is_empty() {
                json_patch::patch(changed.to_mut(), &patch)?;
            }
            answer.patch = Some(patch);
            answer.object = Some(changed);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": {"n": 1}})
    }

    fn answer<'a>(
        operation: Operation,
        response: &Value,
        object: &'a Value,
    ) -> Result<Answer<'a>, AnswerError> {
        let body = json!({"response": response}).to_string();
        Answer::decode(operation, body.as_bytes(), object)
    }

    #[test]
    fn a_request_has_only_what_was_given() {
        let body = |request: &Request<'_>| {
            let body: Value = serde_json::from_slice(&request.body().unwrap()).unwrap();
            body["request"].clone()
        };
        let object = object();
        let request = Request {
            operation: Operation::InterpretHealth,
            object: &object,
            observed: None,
            items: &[],
            replicas: None,
        };
        let expected = json!({
            "uid": "caller", "kind": {"group": "g", "version": "v1", "kind": "K"},
            "name": "a", "namespace": "", "operation": "InterpretHealth", "object": object,
        });
        assert_eq!(body(&request), expected);
        let full = body(&Request {
            observed: Some(&json!({})),
            items: &[json!({"clusterName": "dfw1"})],
            replicas: Some(2),
            ..request
        });
        assert_eq!(full["replicas"], 2);
        assert_eq!(full["aggregatedStatus"][0]["clusterName"], "dfw1");
        assert_eq!(full["observedObject"], json!({}));
    }

    #[test]
    fn a_patch_is_applied_and_its_absence_changes_nothing() {
        let object = object();
        let patch = STANDARD.encode(r#"[{"op": "replace", "path": "/spec/n", "value": 2}]"#);
        let patched = answer(
            Operation::ReviseReplica,
            &json!({"uid": "x", "patch": patch}),
            &object,
        );
        let patched = patched.unwrap();
        assert_eq!(patched.object.unwrap()["spec"]["n"], 2);
        assert!(patched.fields.is_empty());
        let unchanged = answer(Operation::Retain, &json!({"successful": true}), &object).unwrap();
        assert_eq!(
            (unchanged.patch, unchanged.object.as_deref()),
            (Some(Patch::default()), Some(&object))
        );
        let wrong = STANDARD.encode(r#"[{"op": "remove", "path": "/none"}]"#);
        answer(Operation::Retain, &json!({"patch": wrong}), &object).unwrap_err();
    }

    #[test]
    fn a_value_is_the_answer() {
        let (object, response) = (object(), json!({"healthy": false}));
        let answer = answer(Operation::InterpretHealth, &response, &object).unwrap();
        assert_eq!(
            json!(answer),
            json!({"operation": "InterpretHealth", "healthy": false})
        );
    }
}
