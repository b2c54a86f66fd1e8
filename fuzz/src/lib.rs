//! Properties that must hold for every input. Each function panics if its property does not hold.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is what a fuzzer looks for"
)]

mod admission;
pub mod hostile;
mod script;

use api::quantity::Amount;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interpreters::{Interpretation, InterpretedKind, Operation};
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

pub use admission::admit;
pub use script::script;

/// Asserts that the body is refused, or that Karmada's client accepts the answer (docs/concepts/interpreter.md).
/// Karmada writes requests in one exact form. A body in another form is decoded by other code, and the answer must be
/// the same.
pub fn interpret(body: &[u8]) {
    let general = interpreters::interpret_general(body, Timestamp::UNIX_EPOCH);
    let fast = interpreters::interpret(body, Timestamp::UNIX_EPOCH);
    match (&fast, &general) {
        (Ok(fast), Ok(general)) => assert_eq!(fast.body, general.body),
        (fast, general) => assert_eq!(fast.is_err(), general.is_err()),
    }
    let Ok(Interpretation {
        operation,
        kind,
        uid,
        error,
        body,
        ..
    }) = fast
    else {
        return;
    };
    let _: &RawValue = serde_json::from_slice(&body).expect("the answer is JSON");
    // The answer can contain a lone surrogate from the request. Karmada accepts such JSON, but this parser does not.
    let Ok(context) = serde_json::from_slice::<Value>(&body) else {
        return;
    };
    assert_eq!(context["apiVersion"], "config.karmada.io/v1alpha1");
    assert_eq!(context["kind"], "ResourceInterpreterContext");
    let response = &context["response"];
    assert!(!uid.is_empty() && response["uid"] == uid);
    assert_eq!(response["successful"], error.is_none());
    if error.is_some() {
        assert!(
            response["status"]["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        return;
    }
    let operation = operation.expect("a successful answer has an operation");
    answers(
        operation,
        kind.expect("a successful answer has a kind"),
        response,
    );
}

fn answers(operation: Operation, kind: InterpretedKind, response: &Value) {
    match operation {
        Operation::InterpretReplica => {
            let replicas = response["replicas"].as_i64().expect("an integer");
            assert!((0..=i64::from(i32::MAX)).contains(&replicas));
            requirements(&response["replicaRequirements"]);
        }
        Operation::InterpretComponent => {
            for component in response["components"].as_array().expect("components") {
                requirements(&component["replicaRequirements"]);
            }
        }
        Operation::InterpretDependency => {
            let dependencies = response["dependencies"].as_array().expect("dependencies");
            let names = dependencies
                .iter()
                .map(|d| (d["kind"].as_str(), d["name"].as_str()));
            let names: Vec<_> = names.collect();
            assert!(
                names.is_sorted_by(|one, other| one < other),
                "sorted and unique"
            );
            assert!(
                names
                    .iter()
                    .all(|(_, name)| name.is_some_and(|name| !name.is_empty()))
            );
        }
        Operation::InterpretStatus => assert!(!response["rawStatus"].is_null()),
        Operation::InterpretHealth => assert!(response["healthy"].is_boolean()),
        Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus => {
            let Some(patch) = response.get("patch") else {
                return assert!(response.get("patchType").is_none());
            };
            assert_eq!(response["patchType"], "JSONPatch");
            let patch = STANDARD
                .decode(patch.as_str().expect("text"))
                .expect("base64");
            let _: Vec<&RawValue> = serde_json::from_slice(&patch).expect("a list");
            // This parser rejects numbers that are too large for its number types. No API server stores such a number.
            let Ok(patch) = serde_json::from_slice::<Vec<Value>>(&patch) else {
                return;
            };
            assert!(!patch.is_empty());
            for step in &patch {
                assert_eq!(step["op"], "add");
                if operation == Operation::AggregateStatus {
                    assert_eq!(step["path"], "/status");
                    status(kind, &step["value"]);
                }
            }
        }
    }
}

fn requirements(requirements: &Value) {
    for amount in requirements["resourceRequest"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let text = amount.1.as_str().expect("a quantity is text");
        is_canonical(text);
    }
}

/// Asserts that the hub can decode the status.
fn status(kind: InterpretedKind, status: &Value) {
    if kind == InterpretedKind::WorkloadDeployment {
        let decoded: Result<api::WorkloadDeploymentStatus, _> =
            serde_json::from_value(status.clone());
        assert!(decoded.is_ok(), "{decoded:?}: {status}");
    }
}

/// Asserts that the text is not a quantity, or that its canonical form is stable.
pub fn quantity(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Ok(amount) = text.parse::<Amount>() else {
        return;
    };
    is_canonical(&amount.to_string());
    let doubled = amount.saturating_add(amount).to_string();
    assert!(doubled.parse::<Amount>().is_ok(), "{doubled:?}");
}

/// Asserts that the text is a quantity, and that its canonical form is the same text. Two exceptions exist, as in
/// Kubernetes. 62.5Ki is printed as 64000, and 64000 is printed as 64k. A sum of 14Ei is replaced by the largest value
/// with a binary suffix. In both cases the second canonical form must be stable.
fn is_canonical(text: &str) {
    let print = |text: &str| {
        let amount: Amount = text.parse().expect("the canonical form is a quantity");
        amount.to_string()
    };
    let again = print(text);
    if again != text {
        let most = i64::MAX.to_string();
        assert!(
            text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
                || again.trim_start_matches('-') == most,
            "{text:?}"
        );
        assert_eq!(print(&again), again, "{text:?}");
    }
}
