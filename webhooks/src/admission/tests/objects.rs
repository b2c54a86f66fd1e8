//! Tests of requests: which objects are checked, and how large an answer can be.

use http::StatusCode;
use serde_json::{Value, json};

use super::{FakeProjects, allowed, create, review, server, workload};
use crate::admission::{MUTATE_WORKLOAD, VALIDATE_WORKLOAD};

#[tokio::test]
async fn an_update_looks_up_only_new_facts() {
    // The cities are unknown, and no access review gets an answer.
    let unknown = FakeProjects {
        cities: None,
        ..FakeProjects::new()
    };
    let server = server(unknown);
    let old = workload("default", "nginx:1");
    let update = |object: &Value| review("UPDATE", object, &old);
    server
        .assert_allowed(&update(&workload("default", "nginx:2")))
        .await;
    let mut no_claims = update(&workload("default", "nginx:2"));
    no_claims["request"]["userInfo"] = json!({});
    server.assert_allowed(&no_claims).await;
    assert!(server.projects.asked.lock().unwrap().is_empty());
    let response = server.validate(&update(&workload("default", ""))).await;
    assert_eq!(response["status"]["code"], 422);
}

#[tokio::test]
async fn a_request_that_does_not_change_the_spec_is_never_denied() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    let mut invalid = workload("default", "");
    invalid["spec"]["placements"] = json!([]);
    let mut with_finalizer = invalid.clone();
    with_finalizer["metadata"]["finalizers"] = json!(["example.com/x"]);
    server
        .assert_allowed(&review("UPDATE", &invalid, &with_finalizer))
        .await;
    let mut terminating = workload("default", "nginx");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let other = workload("default", "nginx");
    server
        .assert_allowed(&review("UPDATE", &invalid, &terminating))
        .await;
    // A requester can set a deletionTimestamp with server-side apply. The webhook checks the spec anyway.
    for (operation, old) in [("CREATE", &Value::Null), ("UPDATE", &other)] {
        let mut forged = invalid.clone();
        forged["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let response = server.validate(&review(operation, &forged, old)).await;
        assert_eq!(response["status"]["code"], 422);
    }
    server
        .assert_allowed(&review("DELETE", &Value::Null, &invalid))
        .await;
    let mut status = review("UPDATE", &invalid, &other);
    status["request"]["subResource"] = json!("status");
    server.assert_allowed(&status).await;
}

#[tokio::test]
async fn an_error_names_a_field_of_the_wrong_type() {
    let server = server(FakeProjects::new());
    let mut review = create("default");
    review["request"]["object"]["spec"]["placements"][0]["name"] = json!(3);
    let status = server
        .assert_denied(
            &review,
            422,
            "Workload.compute.datumapis.com \"web\" is invalid: spec.placements[0].name: Invalid value: invalid type: \
             integer `3`, expected a string",
        )
        .await;
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "spec.placements[0].name"
    );
}

#[tokio::test]
async fn a_body_that_is_not_a_review_of_a_workload_is_refused() {
    let server = server(FakeProjects::new());
    let mut review = create("default");
    review["request"]["kind"]["kind"] = json!("Instance");
    for path in [VALIDATE_WORKLOAD, MUTATE_WORKLOAD] {
        let (code, answer) = server.post(path, &review).await;
        assert_eq!(
            (code, &answer["response"]["status"]["code"]),
            (StatusCode::OK, &json!(400))
        );
        for (field, value) in [
            ("apiVersion", json!("admission.k8s.io/v1beta1")),
            ("kind", json!("Review")),
            ("request", Value::Null),
        ] {
            let mut review = create("default");
            review[field] = value;
            let (code, answer) = server.post(path, &review).await;
            let message = answer["message"].as_str().unwrap();
            assert_eq!(code, StatusCode::BAD_REQUEST);
            assert!(message.starts_with(field), "{message}");
        }
    }
}

#[tokio::test]
async fn the_mutating_webhook_changes_nothing() {
    let server = server(FakeProjects::new());
    let (code, answer) = server.post(MUTATE_WORKLOAD, &create("default")).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(answer["response"], json!({"uid": "u1", "allowed": true}));
}

#[tokio::test]
async fn only_the_first_of_ten_thousand_errors_are_listed() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    let mut review = create("default");
    let codes: Vec<_> = (0..100).map(|code| format!("X{code}")).collect();
    let placement = |index: usize| json!({"name": format!("p{index}"), "cityCodes": codes, "scaleSettings": {"minReplicas": 1}});
    let placements: Vec<_> = (0..100).map(placement).collect();
    review["request"]["object"]["spec"]["placements"] = placements.into();
    let response = server.validate(&review).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 101);
    assert_eq!(causes[100]["message"], "and 9900 more errors");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.len() < 20_000, "{}", message.len());
}

#[tokio::test]
async fn an_answer_is_short_for_any_object_and_any_number_of_cities() {
    const MOST: usize = 256 << 10;
    let codes = (0..1000).map(|code| format!("X{code}")).collect();
    let many = FakeProjects {
        cities: Some(codes),
        ..FakeProjects::new()
    };
    let server = server(many.answering("default", allowed()));
    for c in ["\0", "\"", "\\", "\u{80}", "ä", "\u{10ffff}"] {
        let mut review = create("default");
        let code = c.repeat(1000);
        review["request"]["object"]["spec"]["placements"][0]["cityCodes"] = vec![code; 200].into();
        let response = server.validate(&review).await;
        let causes = response["status"]["details"]["causes"].as_array().unwrap();
        assert_eq!(causes[100]["message"], "and 100 more errors");
        let length = response.to_string().len();
        assert!(length < MOST, "{c:?}: {length}");
    }
}

#[tokio::test]
async fn a_long_value_of_the_wrong_type_is_cut_off() {
    let server = server(FakeProjects::new());
    let mut review = create("default");
    let long = ", expected x at line ".repeat(1000);
    review["request"]["object"]["spec"]["placements"][0]["scaleSettings"]["minReplicas"] =
        json!(long);
    let response = server.validate(&review).await;
    let message = response["status"]["details"]["causes"][0]["message"].as_str();
    let message = message.unwrap();
    let expected = "Invalid value: invalid type: a long string, expected i32";
    assert_eq!(message, expected);
}

/// The cost must not be proportional to the length of a name times the number of errors below the name. Otherwise this
/// test takes hours.
#[tokio::test]
async fn a_long_name_is_hashed_once_for_all_errors_below_it() {
    let with = |city: &str| {
        let mut workload = create("default")["request"]["object"].clone();
        workload["spec"]["placements"][0]["name"] = "n".repeat(1_000_000).into();
        workload["spec"]["placements"][0]["cityCodes"] = vec![city; 15_000].into();
        workload
    };
    let server = server(FakeProjects::new());
    let response = server
        .validate(&review("UPDATE", &with("x"), &with("y")))
        .await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes[100]["message"], "and 14900 more errors");
}

/// An update may keep an error. The requester learns of it, because the next object with this error is refused.
#[tokio::test]
async fn an_error_that_an_update_keeps_is_a_warning() {
    let server = server(FakeProjects::new());
    let mut old = workload("n1", "nginx");
    old["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(0);
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] =
        json!("nginx:2");
    let response = server.validate(&review("UPDATE", &new, &old)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let warnings = response["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{response}");
    let warning = warnings[0].as_str().unwrap();
    assert!(
        warning.starts_with(
            "not valid, but was so before: spec.placements[0].scaleSettings.minReplicas: Invalid value: 0"
        ),
        "{warning}"
    );
    let warnings = &server.validate(&review("UPDATE", &new, &new)).await["warnings"];
    assert!(warnings.is_null(), "an unchanged object is not checked");
}

#[tokio::test]
async fn an_error_about_a_long_value_still_names_the_expected_one() {
    let server = server(FakeProjects::new());
    let mut review = create("default");
    review["apiVersion"] = "x".repeat(1000).into();
    let (code, status) = server.post(VALIDATE_WORKLOAD, &review).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("\"... (872 more bytes), must be \"admission.k8s.io/v1\""),
        "{message}"
    );
}
