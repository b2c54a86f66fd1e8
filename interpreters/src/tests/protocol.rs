//! Tests of the answers to well-formed and malformed requests.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Interpretation, MalformedReview, Operation, interpret};

fn now() -> Timestamp {
    super::NOW.parse().unwrap()
}

fn request(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let object = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    let mut context = super::request(
        "WorkloadDeployment",
        "InterpretReplica",
        &object,
        &json!({}),
    );
    change(&mut context["request"]);
    serde_json::to_vec(&context).unwrap()
}

fn answer(interpretation: &Interpretation) -> Value {
    serde_json::from_slice(&interpretation.body).unwrap()
}

fn failure(change: impl FnOnce(&mut Value)) -> String {
    let interpretation = interpret(&request(change), now()).unwrap();
    let answer = answer(&interpretation);
    assert_eq!(answer["response"]["uid"], "u1");
    assert_eq!(answer["response"]["successful"], false);
    assert!(answer["response"]["status"]["code"].is_i64());
    answer["response"]["status"]["message"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_answer_repeats_the_uid_in_the_same_protocol() {
    let interpretation = interpret(&request(|_| ()), now()).unwrap();
    assert_eq!(
        answer(&interpretation),
        json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterContext",
            "response": {"uid": "u1", "successful": true, "replicas": 2},
        })
    );
    assert_eq!(interpretation.operation, Some(Operation::InterpretReplica));
    assert_eq!(interpretation.name, "web-default-dfw");
}

#[test]
fn unknown_fields_and_an_omitted_envelope_type_are_tolerated() {
    let mut context: Value = serde_json::from_slice(&request(|_| ())).unwrap();
    context.as_object_mut().unwrap().remove("kind");
    context["request"]["dryRun"] = json!(true);
    let interpretation = interpret(&serde_json::to_vec(&context).unwrap(), now()).unwrap();
    assert_eq!(answer(&interpretation)["response"]["successful"], true);
}

#[test]
fn a_body_that_has_no_answer_in_the_protocol_is_malformed() {
    for body in [
        "",
        "not json",
        "[]",
        "3",
        r#"{"request": 3}"#,
        "{\"request\": {\"uid\": \"\u{0}\"}}",
    ] {
        let error = interpret(body.as_bytes(), now()).unwrap_err();
        assert!(
            matches!(error, MalformedReview::NotAReview(_)),
            "{body}: {error}"
        );
    }
    let invalid = |body: Value| match interpret(body.to_string().as_bytes(), now()).unwrap_err() {
        MalformedReview::Invalid(error) => error.to_string(),
        MalformedReview::NotAReview(error) => panic!("{error}"),
    };
    assert_eq!(invalid(json!({})), "request: is missing");
    assert_eq!(invalid(json!({"request": {}})), "request.uid: is missing");
    assert_eq!(
        invalid(json!({"kind": "AdmissionReview", "request": {"uid": "u"}})),
        "kind: is \"AdmissionReview\", must be \"ResourceInterpreterContext\""
    );
    assert_eq!(
        invalid(json!({"apiVersion": "config.karmada.io/v1", "request": {"uid": "u"}})),
        "apiVersion: is \"config.karmada.io/v1\", must be \"config.karmada.io/v1alpha1\""
    );
}

#[test]
fn the_error_names_an_unknown_operation() {
    let message = failure(|request| request["operation"] = json!("Prune"));
    assert!(
        message.starts_with(
            "request.operation: unknown operation \"Prune\"; known are InterpretReplica,"
        ),
        "{message}"
    );
}

#[test]
fn the_error_names_an_unsupported_kind() {
    let message = failure(|request| request["kind"]["kind"] = json!("Workload"));
    assert_eq!(
        message,
        "request.kind: compute.datumapis.com/v1alpha Workload is not interpreted here; \
         WorkloadDeployment and Instance of compute.datumapis.com/v1alpha are"
    );
    assert!(failure(|request| request["kind"]["group"] = json!("apps")).contains("apps/v1alpha"));
    assert!(failure(|request| request["kind"]["version"] = json!("v1")).contains("/v1 "));
}

#[test]
fn the_error_names_the_path_of_the_field() {
    for (object, expected) in [
        (
            json!({"spec": {"scaleSettings": {"minReplicas": "two"}}}),
            "request.object.spec.scaleSettings.minReplicas: ",
        ),
        (
            json!({"spec": {"replicas": 2.5}}),
            "request.object.spec.replicas: ",
        ),
        (
            json!({"spec": {}}),
            "spec.scaleSettings.minReplicas: is missing, and so is spec.replicas",
        ),
        (
            json!({"spec": {"replicas": 1, "template": {"spec": {"runtime": []}}}}),
            "spec.template.spec.runtime: ",
        ),
        (json!("text"), "request.object: "),
    ] {
        let message = failure(|request| request["object"] = object.clone());
        assert!(message.starts_with(expected), "{object}: {message}");
    }
    let message = failure(|request| {
        request.as_object_mut().unwrap().remove("object");
    });
    assert_eq!(message, "request.object: is missing");
    let message = failure(|request| request["operation"] = json!("Retain"));
    assert_eq!(message, "request.observedObject: is missing");
    let message = failure(|request| {
        request["operation"] = json!("AggregateStatus");
        request["aggregatedStatus"] = json!({});
    });
    assert!(
        message.starts_with("request.aggregatedStatus: "),
        "{message}"
    );
}
