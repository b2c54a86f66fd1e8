//! A fake of a project's API server for the admission benchmark. It serves LocationBindings and SubjectAccessReviews,
//! with a latency. It allows a review only if the review has the expected user and exactly the attributes of the
//! request. A review without one of these attributes is denied.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use clap::Parser;
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::sleep;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves the requests that admission sends to a project.
#[derive(Parser)]
struct Args {
    /// Port on loopback.
    #[arg(long)]
    port: u16,
    /// Directory with tls.crt and tls.key.
    #[arg(long)]
    cert_dir: PathBuf,
    /// File with the `userInfo` of the requests.
    #[arg(long)]
    user: PathBuf,
    /// The network that this user may not use.
    #[arg(long)]
    denied_network: String,
    /// Latency of a review, in milliseconds.
    #[arg(long, default_value_t = 10)]
    review_milliseconds: u64,
}

const NETWORKING: &str = "networking.datumapis.com";
const CITIES: [&str; 30] = [
    "AMS", "ARN", "ATL", "BOM", "BOS", "CDG", "DEN", "DFW", "DUB", "EWR", "FRA", "GRU", "HKG",
    "HND", "IAD", "ICN", "JNB", "LAX", "LHR", "MAD", "MEX", "MIA", "MXP", "ORD", "PHX", "SEA",
    "SIN", "SJC", "SYD", "YYZ",
];

/// Decides the reviews about one user.
struct SingleUserAuthorizer {
    user: KnownUser,
    denied_network: String,
    time: Duration,
}

#[derive(Deserialize)]
struct KnownUser {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct ReviewBody<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewSpec<'a> {
    #[serde(borrow)]
    resource_attributes: ReviewAttributes<'a>,
    user: &'a str,
    uid: &'a str,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct ReviewAttributes<'a> {
    group: &'a str,
    name: &'a str,
    namespace: &'a str,
    resource: &'a str,
    verb: &'a str,
    version: &'a str,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let user = fs::read(&args.user).context("--user")?;
    let authorizer = Arc::new(SingleUserAuthorizer {
        user: serde_json::from_slice(&user).context("--user")?,
        denied_network: args.denied_network,
        time: Duration::from_millis(args.review_milliseconds),
    });
    let router = Router::new()
        .route(
            "/apis/networking.datumapis.com/v1alpha/locationbindings",
            get(locations),
        )
        .route(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            post(review).with_state(authorizer),
        )
        .fallback(async || status(StatusCode::NOT_FOUND, "NotFound"));
    benches::serve(args.port, &args.cert_dir, router).await
}

/// Answers LIST and WATCH of LocationBindings, which never change.
async fn locations(RawQuery(query): RawQuery) -> Response {
    let asks = |parameter: &str| {
        let parameters = query.as_deref().unwrap_or_default().split('&');
        parameters
            .filter_map(|given| given.split_once('='))
            .any(|(name, value)| name == parameter && matches!(value, "true" | "1"))
    };
    if asks("sendInitialEvents") {
        // An API server without this feature sends the same response. Clients then send a LIST, and start the WATCH at
        // its version.
        return status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
    }
    if asks("watch") {
        let never = futures::stream::pending::<Result<Bytes, Infallible>>();
        return json_response(StatusCode::OK, Body::from_stream(never));
    }
    let bindings: Vec<_> = CITIES.into_iter().map(location_binding).collect();
    let list = json!({
        "apiVersion": format!("{NETWORKING}/v1alpha"),
        "items": bindings,
        "kind": "LocationBindingList",
        "metadata": {"resourceVersion": "48213"},
    });
    json_response(StatusCode::OK, list.to_string())
}

fn location_binding(code: &str) -> Value {
    let name = code.to_lowercase();
    json!({
        "apiVersion": format!("{NETWORKING}/v1alpha"),
        "kind": "LocationBinding",
        "metadata": {
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "generation": 1,
            "labels": {"services.miloapis.com/service-name": NETWORKING},
            "name": name,
            "resourceVersion": "4711",
            "uid": "5a1c8a3e-2f0f-4b37-9d4a-1f0b6a3a7c55",
        },
        "spec": {
            "displayName": format!("Location {code}"),
            "locationClassName": "datum-managed",
            "locationRef": {"name": name},
            "topology": {"topology.datum.net/city-code": code},
        },
        "status": {"conditions": [{
            "lastTransitionTime": "2026-11-21T10:00:01Z",
            "message": "the location may be used",
            "reason": "Available",
            "status": "True",
            "type": "Available",
        }]},
    })
}

async fn review(State(authorizer): State<Arc<SingleUserAuthorizer>>, body: Bytes) -> Response {
    let Ok(ReviewBody { spec }) = serde_json::from_slice(&body) else {
        return status(StatusCode::BAD_REQUEST, "BadRequest");
    };
    let decision = match serde_json::from_str(spec.get()) {
        Ok(asked) => authorizer.decide(&asked),
        Err(_) => Err("the review leaves something out"),
    };
    sleep(authorizer.time).await;
    let decision = match decision {
        Ok(reason) => json!({"allowed": true, "reason": reason}),
        Err(reason) => json!({"allowed": false, "reason": reason}),
    };
    let answer = format!(
        r#"{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{{}},"spec":{spec},"status":{decision}}}"#
    );
    json_response(StatusCode::CREATED, answer)
}

impl SingleUserAuthorizer {
    fn decide(&self, asked: &ReviewSpec<'_>) -> Result<&'static str, &'static str> {
        let ReviewAttributes {
            group,
            name,
            namespace,
            resource,
            verb,
            version,
        } = asked.resource_attributes;
        let is_network = match (verb, group, version, resource) {
            ("use", NETWORKING, "v1alpha", "networks") => true,
            ("get", "", "v1", "configmaps" | "secrets") => false,
            _ => return Err("the review is about something else"),
        };
        let user = &self.user;
        // The load generator adds a number to the name, so that several users have the same claims.
        let number = asked.user.strip_prefix(&*user.username);
        let is_named = number.is_some_and(|number| number.is_empty() || number.starts_with('-'));
        let is_the_user = is_named
            && asked.uid == &*user.uid
            && asked.groups == user.groups
            && asked.extra == user.extra;
        if !is_the_user || namespace.is_empty() {
            return Err("the review is about someone else");
        }
        match is_network && name == self.denied_network {
            true => Err("no role of the project grants it"),
            false => Ok("a role of the project grants it"),
        }
    }
}

fn status(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "apiVersion": "v1",
        "code": code.as_u16(),
        "kind": "Status",
        "message": format!("{reason}: this is no API server"),
        "reason": reason,
        "status": "Failure",
    });
    json_response(code, status.to_string())
}

fn json_response(code: StatusCode, body: impl Into<Body>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (code, content_type, body.into()).into_response()
}
