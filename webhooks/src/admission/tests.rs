//! Reviews through the router, with projects of the test's making.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::ProjectName;
use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{AccessReview, Decision, MUTATE_WORKLOAD, ProjectError, Projects, VALIDATE_WORKLOAD};
use crate::{Limits, Metrics, router};

/// What is known of project `p1`, and what it was asked.
#[derive(Default)]
struct Fake {
    only: Option<ProjectName>,
    cities: Option<BTreeSet<String>>,
    answers: BTreeMap<&'static str, Result<Decision, ProjectError>>,
    asked: Mutex<Vec<AccessReview>>,
}

impl Fake {
    fn new() -> Self {
        Self {
            cities: Some(["DFW".to_owned()].into()),
            ..Self::default()
        }
    }

    /// Also knows what the authorizer answers for a network. Of others it knows no end.
    fn answering(mut self, network: &'static str, answer: Result<Decision, ProjectError>) -> Self {
        self.answers.insert(network, answer);
        self
    }
}

impl Projects for Fake {
    fn only(&self) -> Option<&ProjectName> {
        self.only.as_ref()
    }

    fn cities(&self, project: &ProjectName) -> Result<Arc<BTreeSet<String>>, ProjectError> {
        if project.as_str() != "p1" && self.only.is_none() {
            return Err(ProjectError::Unknown(format!("no project {project}")));
        }
        let unavailable = || ProjectError::Unavailable("not listed yet".to_owned());
        self.cities.clone().map(Arc::new).ok_or_else(unavailable)
    }

    fn review(
        &self,
        _: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<Decision, ProjectError>> {
        let answer = self.answers.get(review.network.as_str()).cloned();
        self.asked.lock().unwrap().push(review);
        match answer {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

#[expect(clippy::unnecessary_wraps)]
fn allowed() -> Result<Decision, ProjectError> {
    Ok(Decision {
        allowed: true,
        reason: String::new(),
    })
}

fn workload(network: &str, image: &str) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "template": {"spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{"name": "web", "image": image}]},
                },
                "networkInterfaces": [{"network": {"name": network}}],
            }},
            "placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
        },
    })
}

fn review(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"},
            "resource": {"group": "compute.datumapis.com", "version": "v1alpha", "resource": "workloads"},
            "name": "web",
            "namespace": "default",
            "operation": operation,
            "userInfo": {
                "username": "ada", "uid": "7", "groups": ["devs", "system:authenticated"],
                "extra": {
                    "iam.miloapis.com/parent-type": ["Project"],
                    "iam.miloapis.com/parent-name": ["p1"],
                    "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
                    "Example.com/Ünïcode": ["b", "a", "b"],
                },
            },
            "object": object,
            "oldObject": old,
            "dryRun": true,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn create(network: &str) -> Value {
    review("CREATE", &workload(network, "nginx"), &Value::Null)
}

struct Server {
    router: axum::Router,
    registry: Registry,
    projects: Arc<Fake>,
}

fn server(projects: Fake) -> Server {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry));
    let projects = Arc::new(projects);
    let shared: Arc<dyn Projects> = projects.clone();
    let router = router(
        metrics,
        Limits::default(),
        || Timestamp::UNIX_EPOCH,
        Some(shared),
    );
    Server {
        router,
        registry,
        projects,
    }
}

impl Server {
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::post(path).body(Body::from(body.to_string()));
        let response = self.router.clone().oneshot(request.unwrap()).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    /// The `response` of a review.
    async fn validate(&self, review: &Value) -> Value {
        let (code, answer) = self.post(VALIDATE_WORKLOAD, review).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], "u1");
        answer["response"].clone()
    }

    async fn assert_denied(&self, review: &Value, code: u16, message: &str) -> Value {
        let response = self.validate(review).await;
        assert_eq!(response["allowed"], false);
        let status = response["status"].clone();
        assert_eq!(
            (&status["code"], &status["message"]),
            (&json!(code), &json!(message))
        );
        status
    }

    async fn assert_allowed(&self, review: &Value) {
        let response = self.validate(review).await;
        assert_eq!(response, json!({"uid": "u1", "allowed": true}));
    }
}

#[tokio::test]
async fn a_valid_workload_is_allowed_and_the_review_has_every_claim() {
    let server = server(Fake::new().answering("default", allowed()));
    server.assert_allowed(&create("default")).await;
    let asked = server.projects.asked.lock().unwrap();
    let [
        AccessReview {
            user,
            namespace,
            network,
        },
    ] = asked.as_slice()
    else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (namespace.as_str(), network.as_str()),
        ("default", "default")
    );
    assert_eq!((user.username.as_str(), user.uid.as_str()), ("ada", "7"));
    assert_eq!(user.groups, ["devs", "system:authenticated"]);
    assert_eq!(user.extra.len(), 4);
    assert_eq!(user.extra["Example.com/Ünïcode"], ["b", "a", "b"]);
}

#[tokio::test]
async fn everything_that_is_wrong_is_one_status_with_a_cause_for_each() {
    let denied = Decision {
        allowed: false,
        reason: "not registered".into(),
    };
    let server = server(Fake::new().answering("default", Ok(denied)));
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
async fn who_cannot_be_asked_is_an_error_and_no_refusal() {
    let down = ProjectError::Unavailable("p1 is down".into());
    let server = server(Fake::new().answering("default", Err(down)));
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
    let server = server(Fake::new());
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

#[tokio::test]
async fn cities_that_are_not_known_are_an_error_after_which_clients_ask_again() {
    let unknown = Fake {
        cities: None,
        ..Fake::new()
    };
    let server = server(unknown.answering("default", allowed()));
    let status = server
        .assert_denied(&create("default"), 503, "not listed yet; try again")
        .await;
    assert_eq!(status["reason"], "ServiceUnavailable");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn a_request_without_a_project_is_forbidden() {
    let server = server(Fake::new().answering("default", allowed()));
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
    server
        .assert_denied(
            &review,
            403,
            "workloads.compute.datumapis.com \"web\" is forbidden: no project p2",
        )
        .await;
}

#[tokio::test]
async fn where_there_is_one_project_no_claims_are_needed() {
    let single = Fake {
        only: Some(ProjectName::new("single").unwrap()),
        ..Fake::new()
    };
    let server = server(single.answering("default", allowed()));
    let mut review = create("default");
    review["request"]["userInfo"] = json!({"username": "admin"});
    server.assert_allowed(&review).await;
}

#[tokio::test]
async fn an_update_asks_only_for_what_is_new() {
    // Nothing is known of the project, and no one answers.
    let unknown = Fake {
        cities: None,
        ..Fake::new()
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
async fn what_does_not_touch_the_spec_is_never_blocked() {
    let server = server(Fake::new());
    let mut invalid = workload("default", "");
    invalid["spec"]["placements"] = json!([]);
    let mut with_finalizer = invalid.clone();
    with_finalizer["metadata"]["finalizers"] = json!(["example.com/x"]);
    server
        .assert_allowed(&review("UPDATE", &invalid, &with_finalizer))
        .await;
    let mut terminating = invalid.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let other = workload("default", "nginx");
    server
        .assert_allowed(&review("UPDATE", &terminating, &other))
        .await;
    server
        .assert_allowed(&review("DELETE", &Value::Null, &invalid))
        .await;
    let mut status = review("UPDATE", &invalid, &other);
    status["request"]["subResource"] = json!("status");
    server.assert_allowed(&status).await;
}

#[tokio::test]
async fn a_field_of_another_type_is_named() {
    let server = server(Fake::new());
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
async fn what_is_no_review_of_a_workload_is_refused() {
    let server = server(Fake::new());
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
async fn nothing_is_mutated() {
    let server = server(Fake::new());
    let (code, answer) = server.post(MUTATE_WORKLOAD, &create("default")).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(answer["response"], json!({"uid": "u1", "allowed": true}));
}

#[tokio::test]
async fn of_a_million_errors_the_first_are_listed() {
    let server = server(Fake::new().answering("default", allowed()));
    let mut review = create("default");
    let codes: Vec<_> = (0..1000).map(|code| format!("X{code}")).collect();
    let placement = |index: usize| json!({"name": format!("p{index}"), "cityCodes": codes, "scaleSettings": {"minReplicas": 1}});
    let placements: Vec<_> = (0..1000).map(placement).collect();
    review["request"]["object"]["spec"]["placements"] = placements.into();
    let response = server.validate(&review).await;
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 101);
    assert_eq!(causes[100]["message"], "and 999900 more errors");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.len() < 20_000, "{}", message.len());
}
