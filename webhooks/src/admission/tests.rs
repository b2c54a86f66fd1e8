//! Tests of admission reviews through the router, with a fake [`ProjectLookup`].

mod data;
mod deployments;
mod objects;
mod reference;
mod requesters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

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

use super::{
    AccessDecision, AccessReview, Admission, KnownCities, ProjectLookup, ProjectLookupError,
    VALIDATE_WORKLOAD,
};
use crate::{Limits, Metrics, router};

/// The user that may change the annotations about referenced data.
const RESOLVER: &str = "system:serviceaccount:compute-system:compute-manager";

/// The facts about every project but `p2`, and the access reviews that the fake received.
#[derive(Default)]
struct FakeProjects {
    only: Option<ProjectName>,
    cities: Option<BTreeSet<String>>,
    outdated: Option<&'static str>,
    answers: BTreeMap<&'static str, Result<AccessDecision, ProjectLookupError>>,
    asked: Mutex<Vec<AccessReview>>,
}

impl FakeProjects {
    fn new() -> Self {
        Self {
            cities: Some(["DFW".to_owned()].into()),
            ..Self::default()
        }
    }

    /// Sets the answer for the objects of a name. An access review for an object without an answer never ends.
    fn answering(
        mut self,
        name: &'static str,
        answer: Result<AccessDecision, ProjectLookupError>,
    ) -> Self {
        self.answers.insert(name, answer);
        self
    }
}

impl ProjectLookup for FakeProjects {
    fn only(&self) -> Option<&ProjectName> {
        self.only.as_ref()
    }

    fn check_served(&self, project: &ProjectName) -> Result<(), ProjectLookupError> {
        match project.as_str() != "p2" || self.only.is_some() {
            true => Ok(()),
            false => Err(ProjectLookupError(format!("no project {project}"))),
        }
    }

    fn cities(&self, project: &ProjectName) -> Result<KnownCities, ProjectLookupError> {
        self.check_served(project)?;
        let unavailable = || ProjectLookupError("not listed yet".to_owned());
        let codes = self.cities.clone().ok_or_else(unavailable)?;
        Ok(KnownCities {
            codes: Arc::new(codes),
            outdated: self.outdated.map(str::to_owned),
        })
    }

    fn review(
        &self,
        _: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<AccessDecision, ProjectLookupError>> {
        let answer = self.answers.get(review.name.as_str()).cloned();
        self.asked.lock().unwrap().push(review);
        match answer {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}

#[expect(clippy::unnecessary_wraps)]
fn allowed() -> Result<AccessDecision, ProjectLookupError> {
    Ok(AccessDecision {
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

struct TestServer {
    router: axum::Router,
    registry: Registry,
    projects: Arc<FakeProjects>,
}

fn server(projects: FakeProjects) -> TestServer {
    server_with(projects, Limits::default())
}

fn server_with(projects: FakeProjects, limits: Limits) -> TestServer {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry));
    let projects = Arc::new(projects);
    let admission = Admission {
        projects: projects.clone(),
        resolvers: [RESOLVER.to_owned()].into(),
    };
    let router = router(metrics, limits, || Timestamp::UNIX_EPOCH, Some(admission));
    TestServer {
        router,
        registry,
        projects,
    }
}

impl TestServer {
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::post(path).body(Body::from(body.to_string()));
        let response = self.router.clone().oneshot(request.unwrap()).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    /// Sends a review to the validating webhook, and returns the `response`.
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
