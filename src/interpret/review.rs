//! The request and the answer of the interpreter protocol (docs/concepts/interpreter.md), as values.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interpreters::Operation;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The objects of one request.
#[derive(Debug, Default)]
pub(super) struct RequestObjects {
    pub(super) object: Value,
    /// The object in the cell, for Retain.
    pub(super) observed: Option<Value>,
    /// The statuses of the cells, for AggregateStatus.
    pub(super) items: Vec<Value>,
    /// For ReviseReplica.
    pub(super) replicas: Option<i32>,
}

impl RequestObjects {
    /// Returns the body of the request.
    pub(super) fn body(&self, operation: Operation) -> Vec<u8> {
        let text = |pointer: &str| {
            let value = self.object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let api_version = text("/apiVersion");
        let (group, version) = api_version
            .rsplit_once('/')
            .unwrap_or(("", api_version.as_str()));
        let mut request = json!({
            "uid": "interpret",
            "kind": {"group": group, "version": version, "kind": text("/kind")},
            "name": text("/metadata/name"),
            "namespace": text("/metadata/namespace"),
            "operation": operation.as_str(),
            "object": self.object,
        });
        let optional = [
            ("observedObject", self.observed.clone()),
            ("replicas", self.replicas.map(Value::from)),
            (
                "aggregatedStatus",
                (!self.items.is_empty()).then(|| json!(self.items)),
            ),
        ];
        if let Some(request) = request.as_object_mut() {
            let given = optional
                .into_iter()
                .filter_map(|(field, value)| Some((field.to_owned(), value?)));
            request.extend(given);
        }
        let review = json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterContext",
            "request": request,
        });
        review.to_string().into_bytes()
    }
}

/// The answer of the interpreter about one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) operation: &'static str,
    /// The fields of the answer, such as `replicas` or `healthy`.
    #[serde(flatten)]
    pub(super) fields: Map<String, Value>,
    /// The JSON patch (RFC 6902) of an operation that changes the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Value>,
    /// The object after the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<Value>,
}

#[derive(Deserialize)]
struct Review {
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    patch: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Fields of a response that say nothing about the object.
const OF_PROTOCOL: [&str; 4] = ["uid", "successful", "status", "patchType"];

/// Returns whether the operation answers with a patch of the object.
fn changes_object(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus
    )
}

impl Answer {
    /// Decodes the body of an answer that succeeded. `object` is the object of the request.
    ///
    /// # Errors
    ///
    /// If the body is not an answer of the protocol, or its patch does not apply to the object.
    pub(super) fn decode(
        operation: Operation,
        body: &[u8],
        object: &Value,
    ) -> anyhow::Result<Self> {
        let Review { response } = serde_json::from_slice(body).context("the answer")?;
        let mut answer = Self {
            operation: operation.as_str(),
            fields: response.fields,
            patch: None,
            object: None,
        };
        answer
            .fields
            .retain(|field, _| !OF_PROTOCOL.contains(&field.as_str()));
        if changes_object(operation) {
            let patch = match response.patch {
                Some(patch) => serde_json::from_slice(&STANDARD.decode(patch)?)?,
                None => Patch::default(),
            };
            let mut changed = object.clone();
            json_patch::patch(&mut changed, &patch).context("the patch of the answer")?;
            answer.patch = Some(json!(patch));
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

    fn answer(operation: Operation, response: &Value) -> anyhow::Result<Answer> {
        let body = json!({"response": response}).to_string();
        Answer::decode(operation, body.as_bytes(), &object())
    }

    #[test]
    fn a_request_has_only_what_was_given() {
        let mut objects = RequestObjects {
            object: object(),
            ..RequestObjects::default()
        };
        let request = |objects: &RequestObjects| {
            let body: Value =
                serde_json::from_slice(&objects.body(Operation::InterpretHealth)).unwrap();
            body["request"].clone()
        };
        let expected = json!({
            "uid": "interpret", "kind": {"group": "g", "version": "v1", "kind": "K"},
            "name": "a", "namespace": "", "operation": "InterpretHealth", "object": object(),
        });
        assert_eq!(request(&objects), expected);
        objects.replicas = Some(2);
        objects.items = vec![json!({"clusterName": "dfw1"})];
        objects.observed = Some(json!({}));
        let request = request(&objects);
        assert_eq!(request["replicas"], 2);
        assert_eq!(request["aggregatedStatus"][0]["clusterName"], "dfw1");
        assert_eq!(request["observedObject"], json!({}));
    }

    #[test]
    fn a_patch_is_applied_and_its_absence_changes_nothing() {
        let patch = STANDARD.encode(r#"[{"op": "replace", "path": "/spec/n", "value": 2}]"#);
        let patched = answer(
            Operation::ReviseReplica,
            &json!({"uid": "x", "patch": patch}),
        );
        let patched = patched.unwrap();
        assert_eq!(patched.object.unwrap()["spec"]["n"], 2);
        assert!(patched.fields.is_empty());
        let unchanged = answer(Operation::Retain, &json!({"successful": true})).unwrap();
        assert_eq!(
            (unchanged.patch, unchanged.object),
            (Some(json!([])), Some(object()))
        );
        let wrong = STANDARD.encode(r#"[{"op": "remove", "path": "/none"}]"#);
        answer(Operation::Retain, &json!({"patch": wrong})).unwrap_err();
    }

    #[test]
    fn a_value_is_the_answer() {
        let answer = answer(Operation::InterpretHealth, &json!({"healthy": false})).unwrap();
        assert_eq!(
            json!(answer),
            json!({"operation": "InterpretHealth", "healthy": false})
        );
    }
}
