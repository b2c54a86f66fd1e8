//! Tests of requesters, of their project, and of the facts about the project.

use std::time::Duration;

use api::ProjectName;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{FakeProjects, allowed, create, review, server, server_with, workload};
use crate::Limits;
use crate::admission::{AccessDecision, ProjectLookupError, VALIDATE_WORKLOAD};

#[tokio::test]
async fn a_valid_workload_is_allowed_and_the_review_has_every_claim() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    server.assert_allowed(&create("default")).await;
    let asked = server.projects.asked.lock().unwrap();
    let [review] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(review.requester.username, "ada");
    let review: Value = serde_json::from_slice(&review.body()).unwrap();
    let user = &create("default")["request"]["userInfo"];
    assert_eq!(
        review["spec"],
        json!({
            "user": "ada", "uid": "7", "groups": user["groups"], "extra": user["extra"],
            "resourceAttributes": {
                "group": "networking.datumapis.com", "version": "v1alpha", "resource": "networks", "verb": "use",
                "namespace": "default", "name": "default",
            },
        })
    );
}

#[tokio::test]
async fn all_errors_are_causes_of_one_status() {
    let denied = AccessDecision {
        allowed: false,
        reason: "not registered".into(),
    };
    let server = server(FakeProjects::new().answering("default", Ok(denied)));
    let mut review = create("default");
    review["request"]["object"]["spec"]["placements"][0]["cityCodes"] = json!(["NYC"]);
    let status = server
        .assert_denied(
            &review,
            422,
            "Workload.compute.datumapis.com \"web\" is invalid: \
             [spec.template.spec.networkInterfaces[0].network: Forbidden: permission to use the network was denied: not \
             registered, spec.placements[0].cityCodes[0]: Unsupported value: \"NYC\": supported values: \"DFW\"]",
        )
        .await;
    assert_eq!(
        status,
        json!({
            "status": "Failure",
            "message": status["message"],
            "reason": "Invalid",
            "code": 422,
            "details": {
                "name": "web",
                "group": "compute.datumapis.com",
                "kind": "Workload",
                "causes": [
                    {
                        "reason": "FieldValueForbidden",
                        "message": "Forbidden: permission to use the network was denied: not registered",
                        "field": "spec.template.spec.networkInterfaces[0].network",
                    },
                    {
                        "reason": "FieldValueNotSupported",
                        "message": "Unsupported value: \"NYC\": supported values: \"DFW\"",
                        "field": "spec.placements[0].cityCodes[0]",
                    },
                ],
            },
        })
    );
}

#[tokio::test]
async fn a_failed_review_is_an_error_and_not_a_denial() {
    let down = ProjectLookupError("p1 is down".into());
    let server = server(FakeProjects::new().answering("default", Err(down)));
    let problem = "it is not known whether the network may be used: p1 is down; try again";
    let status = server
        .assert_denied(
            &create("default"),
            422,
            &format!(
                "Workload.compute.datumapis.com \"web\" is invalid: \
                 spec.template.spec.networkInterfaces[0].network: Internal error: {problem}"
            ),
        )
        .await;
    assert_eq!(status["details"]["causes"][0]["reason"], "InternalError");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &server.registry).unwrap();
    let line = "admission_requests_total{webhook=\"validate\",outcome=\"error\"} 1";
    assert!(text.contains(line), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_review_that_hangs_ends_before_the_callers_deadline() {
    let server = server(FakeProjects::new());
    let begin = tokio::time::Instant::now();
    let path = format!("{VALIDATE_WORKLOAD}?timeout=3s");
    let (_, answer) = server.post(&path, &create("hangs")).await;
    assert_eq!(begin.elapsed(), Duration::from_millis(2750));
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("the API server of project p1 did not answer in time; try again"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_user_that_wait_for_reviews_leave_room_for_those_of_another() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    let mut hangs = create("hangs");
    hangs["request"]["object"]["metadata"]["annotations"] = json!({"a": "x".repeat(200 << 10)});
    let requests = (0..60).map(|_| server.post(VALIDATE_WORKLOAD, &hangs));
    let mut requests: FuturesUnordered<_> = requests.collect();
    while let Ok(Some((code, answer))) = timeout(Duration::from_millis(1), requests.next()).await {
        assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "{answer}");
    }
    // They use a quarter of the bytes for decoding, which are 96 MiB.
    assert!((5..15).contains(&requests.len()), "{}", requests.len());
    let mut other = create("default");
    other["request"]["userInfo"]["username"] = json!("bob");
    server.assert_allowed(&other).await;
}

/// An API server needs a connection for each call, because it uses HTTP/1.1.
#[tokio::test(start_paused = true)]
async fn requests_of_one_user_that_wait_for_reviews_leave_connections_for_those_of_another() {
    let limits = Limits {
        connections_per_address: 40,
        ..Limits::default()
    };
    let server = server_with(FakeProjects::new().answering("default", allowed()), limits);
    let hangs = create("hangs");
    let requests = (0..60).map(|_| server.post(VALIDATE_WORKLOAD, &hangs));
    let mut requests: FuturesUnordered<_> = requests.collect();
    while let Ok(Some((code, answer))) = timeout(Duration::from_millis(1), requests.next()).await {
        assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "{answer}");
    }
    assert_eq!(requests.len(), 10);
    let mut other = create("default");
    other["request"]["userInfo"]["username"] = json!("bob");
    server.assert_allowed(&other).await;
}

/// The authorizers of two projects hang, and their users send what they can.
#[tokio::test(start_paused = true)]
async fn requests_of_two_projects_that_wait_for_reviews_leave_connections_for_a_third() {
    let limits = Limits {
        connections_per_address: 40,
        ..Limits::default()
    };
    let server = server_with(FakeProjects::new().answering("default", allowed()), limits);
    let of = |project: &str, user: &str, network: &str| {
        let mut review = create(network);
        review["request"]["userInfo"]["username"] = json!(user);
        review["request"]["userInfo"]["extra"]["iam.miloapis.com/parent-name"] = json!([project]);
        review
    };
    let mut reviews = Vec::new();
    for (project, user) in [("p1", "a"), ("p1", "b"), ("p3", "c"), ("p3", "d")] {
        reviews.extend((0..20).map(|_| of(project, user, "hangs")));
    }
    let requests = reviews.iter().map(|it| server.post(VALIDATE_WORKLOAD, it));
    let mut requests: FuturesUnordered<_> = requests.collect();
    while let Ok(Some((code, answer))) = timeout(Duration::from_millis(1), requests.next()).await {
        assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "{answer}");
    }
    assert!((20..30).contains(&requests.len()), "{}", requests.len());
    server.assert_allowed(&of("p4", "e", "default")).await;
}

#[tokio::test(start_paused = true)]
async fn networks_without_a_review_before_the_deadline_are_not_too_many() {
    let (_, review) = with_networks(40, true);
    let path = format!("{VALIDATE_WORKLOAD}?timeout=3s");
    let (_, answer) = server(FakeProjects::new()).post(&path, &review).await;
    let causes = &answer["response"]["status"]["details"]["causes"];
    let causes = causes.as_array().unwrap();
    assert_eq!(causes.len(), 40);
    for cause in causes {
        let message = cause["message"].as_str().unwrap();
        assert!(
            message.ends_with("did not answer in time; try again"),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_about_networks_no_city_is_blamed() {
    let causes = async |projects: FakeProjects| -> Vec<String> {
        let mut review = create("default");
        review["request"]["object"]["spec"]["placements"][0]["cityCodes"] = json!(["NYC"]);
        let response = server(projects).validate(&review).await;
        let causes = response["status"]["details"]["causes"].as_array().unwrap();
        let reason = |cause: &Value| cause["reason"].as_str().unwrap().to_owned();
        causes.iter().map(reason).collect()
    };
    assert_eq!(causes(FakeProjects::new()).await, ["InternalError"]);
    let answers = FakeProjects::new().answering("default", allowed());
    assert_eq!(causes(answers).await, ["FieldValueNotSupported"]);
}

/// Returns a fake with the given numbers of allowed and denied networks, and a review of a Workload with all these
/// networks.
fn with_networks(count: usize, allowed: bool) -> (FakeProjects, Value) {
    let decision = AccessDecision {
        allowed,
        reason: String::new(),
    };
    let (mut projects, mut interfaces) = (FakeProjects::new(), Vec::new());
    for index in 0..count {
        let name: &'static str = Box::leak(format!("n{index}").into_boxed_str());
        projects = projects.answering(name, Ok(decision.clone()));
        interfaces.push(json!({"network": {"name": name}}));
    }
    let mut review = create("n0");
    let spec = &mut review["request"]["object"]["spec"]["template"]["spec"];
    spec["networkInterfaces"] = interfaces.into();
    (projects, review)
}

#[tokio::test]
async fn many_denied_networks_do_not_hide_an_unknown_city() {
    let (projects, mut review) = with_networks(101, false);
    review["request"]["object"]["spec"]["placements"][0]["cityCodes"] = json!(["NYC"]);
    let response = server(projects).validate(&review).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    // The two further errors: the network without an access review, and the unknown city.
    assert_eq!(causes[100]["message"], "and 2 more errors");
}

#[tokio::test]
async fn unknown_cities_are_an_error_that_clients_retry() {
    let unknown = FakeProjects {
        cities: None,
        ..FakeProjects::new()
    };
    let server = server(unknown.answering("default", allowed()));
    let status = server
        .assert_denied(&create("default"), 503, "not listed yet")
        .await;
    assert_eq!(status["reason"], "ServiceUnavailable");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn cities_that_may_be_out_of_date_admit_and_do_not_deny() {
    let outdated = FakeProjects {
        outdated: Some("the API server does not answer"),
        ..FakeProjects::new()
    };
    let server = server(outdated.answering("default", allowed()));
    server.assert_allowed(&create("default")).await;
    let mut review = create("default");
    review["request"]["object"]["spec"]["placements"][0]["cityCodes"] = json!(["DFW", "NYC"]);
    let problem = "the API server does not answer";
    server.assert_denied(&review, 503, problem).await;
}

#[tokio::test]
async fn a_request_without_a_project_is_forbidden() {
    let server = server(FakeProjects::new().answering("default", allowed()));
    let mut review = create("default");
    review["request"]["userInfo"]["extra"] = json!({});
    server
        .assert_denied(
            &review,
            403,
            "workloads.compute.datumapis.com \"web\" is forbidden: userInfo.extra has no iam.miloapis.com/parent-type: the \
             request did not come through the control plane of a project",
        )
        .await;
    review = create("default");
    review["request"]["userInfo"]["extra"]["iam.miloapis.com/parent-name"] = json!(["p2"]);
    server.assert_denied(&review, 503, "no project p2").await;
}

/// A new network needs the project too.
#[tokio::test]
async fn an_update_in_an_unknown_project_is_an_error_that_clients_retry() {
    let server = server(FakeProjects::new().answering("other", allowed()));
    let (former, changed) = (workload("default", "nginx"), workload("other", "nginx"));
    let mut review = review("UPDATE", &changed, &former);
    server.assert_allowed(&review).await;
    review["request"]["userInfo"]["extra"]["iam.miloapis.com/parent-name"] = json!(["p2"]);
    let status = server.assert_denied(&review, 503, "no project p2").await;
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn a_single_project_needs_no_claims() {
    let single = FakeProjects {
        only: Some(ProjectName::new("single").unwrap()),
        ..FakeProjects::new()
    };
    let server = server(single.answering("default", allowed()));
    let mut review = create("default");
    review["request"]["userInfo"] = json!({"username": "admin"});
    server.assert_allowed(&review).await;
}

#[tokio::test]
async fn reviews_stop_when_the_list_of_refusals_is_full() {
    let (projects, review) = with_networks(3000, false);
    let server = server(projects);
    let response = server.validate(&review).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 101);
    assert_eq!(
        causes[99]["field"],
        "spec.template.spec.networkInterfaces[99].network"
    );
    assert_eq!(causes[100]["message"], "and 2900 more errors");
    assert!(server.projects.asked.lock().unwrap().len() < 200);
}

#[tokio::test]
async fn the_reviews_of_one_request_are_limited() {
    let (projects, review) = with_networks(300, true);
    let server = server(projects);
    let response = server.validate(&review).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 300 - 256);
    assert_eq!(
        causes[0],
        json!({
            "field": "spec.template.spec.networkInterfaces[256].network",
            "message": "Forbidden: the right to use the network was not checked: the Workload has too many new or refused networks",
            "reason": "FieldValueForbidden",
        })
    );
    assert_eq!(server.projects.asked.lock().unwrap().len(), 256);
    // The requester can correct the Workload, so no operator is called.
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &server.registry).unwrap();
    let line = "admission_requests_total{webhook=\"validate\",outcome=\"denied\"} 1";
    assert!(text.contains(line), "{text}");
}
