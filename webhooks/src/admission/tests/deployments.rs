//! Tests of the webhook that protects the annotations about referenced data.

use api::annotations::{EXPECTED_REFERENCED_DATA, REFERENCED_DATA_ERROR, REFERENCED_DATA_VERSIONS};
use http::StatusCode;
use serde_json::{Value, json};

use super::{FakeProjects, RESOLVER, TestServer, create, server};
use crate::admission::VALIDATE_DEPLOYMENT;

/// Returns a WorkloadDeployment with these annotations.
fn deployment(annotations: &Value) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": "web-us-dfw", "namespace": "default", "annotations": annotations},
        "spec": {"cityCode": "DFW"},
    })
}

fn review(operation: &str, object: &Value, old: &Value) -> Value {
    let mut review = super::review(operation, object, old);
    let request = &mut review["request"];
    request["kind"]["kind"] = json!("WorkloadDeployment");
    request["name"] = json!("web-us-dfw");
    review
}

async fn answer(server: &TestServer, review: &Value) -> Value {
    let (code, answer) = server.post(VALIDATE_DEPLOYMENT, review).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert_eq!(answer["response"]["uid"], "u1");
    answer["response"].clone()
}

/// Returns every review that adds, changes or removes one of the annotations.
fn changes() -> Vec<(&'static str, Value)> {
    let mut reviews = Vec::new();
    for key in [
        EXPECTED_REFERENCED_DATA,
        REFERENCED_DATA_VERSIONS,
        REFERENCED_DATA_ERROR,
    ] {
        let with = |value: &str| deployment(&json!({"a": "b", key: value}));
        let without = deployment(&json!({"a": "b"}));
        let none = deployment(&Value::Null);
        reviews.extend([
            (key, review("CREATE", &with("[]"), &Value::Null)),
            (key, review("CREATE", &with(""), &Value::Null)),
            (key, review("UPDATE", &with("[]"), &without)),
            (key, review("UPDATE", &with(""), &none)),
            (key, review("UPDATE", &with("x"), &with("[]"))),
            (key, review("UPDATE", &without, &with("[]"))),
            (key, review("UPDATE", &none, &with(""))),
        ]);
    }
    reviews
}

#[tokio::test]
async fn another_user_may_not_change_the_annotations() {
    let server = server(FakeProjects::new());
    for (key, review) in changes() {
        let response = answer(&server, &review).await;
        assert_eq!(response["allowed"], false, "{review}");
        let status = &response["status"];
        let message = format!(
            "workloaddeployments.compute.datumapis.com \"web-us-dfw\" is forbidden: metadata.annotations: ada may not \
             change {key}: add the user to referencedData.resolverUsernames in the config file of the webhook server if it \
             runs the controller referenced-data"
        );
        assert_eq!(
            (&status["code"], &status["message"]),
            (&json!(403), &json!(message))
        );
        assert_eq!(status["details"]["kind"], "workloaddeployments");
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &server.registry).unwrap();
    let line = "admission_requests_total{webhook=\"validate_deployment\",outcome=\"denied\"} 21";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn the_resolver_and_administrators_may_change_the_annotations() {
    let server = server(FakeProjects::new());
    let allowed = json!({"uid": "u1", "allowed": true});
    for (_, review) in changes() {
        for (username, groups) in [
            (RESOLVER, json!(["system:authenticated"])),
            ("root", json!(["system:authenticated", "system:masters"])),
        ] {
            let mut review = review.clone();
            let user = &mut review["request"]["userInfo"];
            user["username"] = json!(username);
            user["groups"] = groups;
            // The webhook needs no project.
            user["extra"] = json!({});
            assert_eq!(answer(&server, &review).await, allowed, "{review}");
        }
    }
}

#[tokio::test]
async fn every_user_may_change_anything_else() {
    let server = server(FakeProjects::new());
    let allowed = json!({"uid": "u1", "allowed": true});
    let with = |other: &str| deployment(&json!({EXPECTED_REFERENCED_DATA: "[]", "other": other}));
    let without = deployment(&json!({"compute.datumapis.com/referenced-data-gate-start": "x"}));
    for review in [
        review("UPDATE", &with("b"), &with("a")),
        review("CREATE", &without, &Value::Null),
        review("DELETE", &Value::Null, &with("a")),
    ] {
        assert_eq!(answer(&server, &review).await, allowed, "{review}");
    }
}

#[tokio::test]
async fn another_kind_is_refused() {
    let server = server(FakeProjects::new());
    let response = answer(&server, &create("default")).await;
    let message = "request.kind: compute.datumapis.com/v1alpha Workload is not admitted here, WorkloadDeployment of \
                   compute.datumapis.com/v1alpha is";
    assert_eq!(response["status"]["message"], message);
    let mut malformed = review("CREATE", &deployment(&Value::Null), &Value::Null);
    malformed["request"]["object"]["metadata"]["annotations"] = json!(["a"]);
    let response = answer(&server, &malformed).await;
    assert_eq!(response["status"]["code"], 400);
}
