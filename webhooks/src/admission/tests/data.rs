//! Tests of the access reviews about ConfigMaps and Secrets.

use http::StatusCode;
use serde_json::{Value, json};

use super::{FakeProjects, TestServer, allowed, create, review, server};
use crate::admission::{AccessDecision, ProjectLookupError, VALIDATE_WORKLOAD};

const CONTAINER: &str = "/request/object/spec/template/spec/runtime/sandbox/containers/0";

/// Adds an environment variable with a key of this Secret to the object of a review.
fn add_secret(review: &mut Value, name: &str) {
    let container = review.pointer_mut(CONTAINER).unwrap();
    let source = json!({"secretKeyRef": {"name": name, "key": "k", "optional": true}});
    let variable = json!({"name": format!("V-{name}"), "valueFrom": source});
    match container["env"].as_array_mut() {
        Some(env) => env.push(variable),
        None => container["env"] = json!([variable]),
    }
}

/// Returns a review of a Workload with these Secrets.
fn with_secrets(names: &[&str]) -> Value {
    let mut review = create("default");
    for name in names {
        add_secret(&mut review, name);
    }
    review
}

#[expect(clippy::unnecessary_wraps)]
fn denied(reason: &str) -> Result<AccessDecision, ProjectLookupError> {
    Ok(AccessDecision {
        allowed: false,
        reason: reason.to_owned(),
    })
}

/// Returns the resource attributes of the access reviews, without those about networks.
fn asked(server: &TestServer) -> Vec<Value> {
    let asked = server.projects.asked.lock().unwrap();
    let attributes = asked.iter().map(|review| {
        let body: Value = serde_json::from_slice(&review.body()).unwrap();
        body["spec"]["resourceAttributes"].clone()
    });
    attributes
        .filter(|of| of["resource"] != "networks")
        .collect()
}

#[tokio::test]
async fn each_object_is_asked_about_once_with_every_claim() {
    let projects = FakeProjects::new().answering("default", allowed());
    let projects = projects.answering("s", allowed()).answering("c", allowed());
    let server = server(projects);
    let mut review = with_secrets(&["s", "s"]);
    let all = json!([{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}]);
    review.pointer_mut(CONTAINER).unwrap()["envFrom"] = all;
    server.assert_allowed(&review).await;
    let of = |resource: &str, name: &str| {
        json!({
            "group": "", "version": "v1", "resource": resource, "verb": "get", "namespace": "default", "name": name,
        })
    };
    assert_eq!(asked(&server), [of("secrets", "s"), of("configmaps", "c")]);
    let user = &review["request"]["userInfo"];
    for sent in server.projects.asked.lock().unwrap().iter() {
        let sent: Value = serde_json::from_slice(&sent.body()).unwrap();
        for field in ["uid", "groups", "extra"] {
            assert_eq!(sent["spec"][field], user[field], "{field}");
        }
    }
}

#[tokio::test]
async fn a_denial_names_the_reference_and_the_remedy() {
    let projects = FakeProjects::new().answering("default", allowed());
    let server = server(projects.answering("s", denied("no role")));
    let message = "Workload.compute.datumapis.com \"web\" is invalid: \
                   spec.template.spec.runtime.sandbox.containers[0].env[0].valueFrom.secretKeyRef: Forbidden: \
                   permission to get the Secret was denied: no role; ask for this right, or remove the reference";
    let status = server
        .assert_denied(&with_secrets(&["s"]), 422, message)
        .await;
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldValueForbidden");
}

#[tokio::test]
async fn without_an_answer_no_reference_is_admitted() {
    let down = ProjectLookupError("p1 is down".into());
    let projects = FakeProjects::new().answering("default", allowed());
    let server = server(projects.answering("s", Err(down)));
    let message = "Workload.compute.datumapis.com \"web\" is invalid: \
                   spec.template.spec.runtime.sandbox.containers[0].env[0].valueFrom.secretKeyRef: Internal error: it is \
                   not known whether the Secret may be read: p1 is down; try again";
    server
        .assert_denied(&with_secrets(&["s"]), 422, message)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_review_of_a_secret_that_hangs_ends_before_the_callers_deadline() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    let path = format!("{VALIDATE_WORKLOAD}?timeout=3s");
    let (code, answer) = server.post(&path, &with_secrets(&["hangs"])).await;
    assert_eq!(code, StatusCode::OK);
    let response = &answer["response"];
    assert_eq!(response["allowed"], false);
    let message = response["status"]["message"].as_str().unwrap();
    let end = "it is not known whether the Secret may be read: the API server of project p1 did not answer in time; try again";
    assert!(message.ends_with(end), "{message}");
}

#[tokio::test]
async fn an_update_asks_only_about_new_references() {
    let server = server(FakeProjects::new().answering("new", denied("")));
    let former = with_secrets(&["s"])["request"]["object"].clone();
    let mut update = review("UPDATE", &former, &former);
    update.pointer_mut(CONTAINER).unwrap()["image"] = json!("nginx:2");
    server.assert_allowed(&update).await;
    assert_eq!(asked(&server), [] as [Value; 0]);
    add_secret(&mut update, "new");
    let response = server.validate(&update).await;
    assert_eq!(response["allowed"], false);
    let [review] = &asked(&server)[..] else {
        panic!("{:?}", asked(&server));
    };
    assert_eq!(review["name"], "new");
}

/// Networks and references together have the limit.
#[tokio::test]
async fn the_reviews_of_one_request_are_limited() {
    let mut projects = FakeProjects::new().answering("default", allowed());
    let mut names = Vec::new();
    for index in 0..300 {
        let name: &'static str = Box::leak(format!("s{index}").into_boxed_str());
        projects = projects.answering(name, allowed());
        names.push(name);
    }
    let server = server(projects);
    let response = server.validate(&with_secrets(&names)).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1 + 300 - 256);
    assert_eq!(
        causes[0],
        json!({
            "field": "spec.template.spec.runtime.sandbox.containers[0].env[255].valueFrom.secretKeyRef",
            "message": "Forbidden: the right to get the Secret was not checked: the Workload has too many new or refused references",
            "reason": "FieldValueForbidden",
        })
    );
    assert_eq!(server.projects.asked.lock().unwrap().len(), 256);
    // Without the right, the reviews stop when the list of errors is full.
    let mut refusing = FakeProjects::new().answering("default", allowed());
    for name in &names {
        refusing = refusing.answering(name, denied(""));
    }
    let server = super::server(refusing);
    let response = server.validate(&with_secrets(&names)).await;
    assert_eq!(response["allowed"], false);
    assert!(server.projects.asked.lock().unwrap().len() < 200);
}
