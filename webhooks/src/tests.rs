//! Tests of requests through the router.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tower::ServiceExt;

use crate::{Limits, Metrics, Routes, router};

struct TestServer {
    router: axum::Router,
    registry: Registry,
}

fn server() -> TestServer {
    server_with(Limits::default())
}

fn server_with(limits: Limits) -> TestServer {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::register(&mut registry));
    TestServer {
        router: router(metrics, limits, || Timestamp::UNIX_EPOCH, None),
        registry,
    }
}

fn limit() -> usize {
    Limits::default().body
}

type BodyFrame = Result<http_body::Frame<bytes::Bytes>, std::io::Error>;

/// Returns a body that never arrives.
fn silence() -> Body {
    Body::new(StreamBody::new(futures::stream::pending::<BodyFrame>()))
}

impl TestServer {
    async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(body.into())
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let code = response.status();
        assert_eq!(response.headers()["content-type"], "application/json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn review(operation: &str) -> String {
    json!({"request": {
        "uid": "u1",
        "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "WorkloadDeployment"},
        "operation": operation,
        "object": {"spec": {"replicas": 3}},
    }})
    .to_string()
}

#[tokio::test]
async fn the_interpreter_accepts_a_trailing_slash_and_a_timeout() {
    let server = server();
    for path in [
        "/interpret",
        "/interpret/",
        "/interpret?timeout=3s",
        "/interpret?timeout=x",
    ] {
        let (code, answer) = server.send("POST", path, review("InterpretReplica")).await;
        assert_eq!(
            (code, &answer["response"]["replicas"]),
            (StatusCode::OK, &json!(3)),
            "{path}"
        );
    }
    let counted = "interpreter_requests_total{operation=\"InterpretReplica\",kind=\"WorkloadDeployment\",outcome=\"success\"} 4";
    assert!(server.metrics().contains(counted), "{}", server.metrics());
}

#[tokio::test]
async fn an_unknown_operation_is_answered_and_does_not_become_a_label_value() {
    let server = server();
    let (code, answer) = server.send("POST", "/interpret", review("Sing")).await;
    assert_eq!(
        (code, &answer["response"]["successful"]),
        (StatusCode::OK, &json!(false))
    );
    assert!(
        server
            .metrics()
            .contains("{operation=\"other\",kind=\"WorkloadDeployment\",outcome=\"failure\"} 1")
    );
}

#[tokio::test]
async fn a_body_that_is_not_a_review_is_refused_with_the_reason() {
    let server = server();
    let (code, status) = server.send("POST", "/interpret", "not json").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(status["kind"], "Status");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("the body is not a ResourceInterpreterContext: ")
    );
    assert!(
        server
            .metrics()
            .contains("refused_total{reason=\"malformed\"} 1")
    );
}

#[tokio::test]
async fn a_too_large_body_is_refused_with_and_without_content_length() {
    let server = server();
    let (code, status) = server
        .send("POST", "/interpret", vec![b' '; limit() + 1])
        .await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(status["message"], "the body is larger than 8388608 bytes");
    let chunk = || {
        Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from(vec![
            b' ';
            limit() / 2
        ])))
    };
    let chunks = futures::stream::iter([chunk(), chunk(), chunk()]);
    let (code, _) = server
        .send("POST", "/interpret", Body::new(StreamBody::new(chunks)))
        .await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_arrives_too_late_is_refused() {
    let server = server();
    let (code, status) = server
        .send("POST", "/interpret?timeout=2s", silence())
        .await;
    assert_eq!(code, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(status["message"], "the body did not arrive within 1750 ms");
}

#[tokio::test]
async fn an_error_names_an_unknown_path_or_method() {
    let server = server();
    let (code, status) = server.send("POST", "/interpretation", "").await;
    assert_eq!(
        (code, &status["message"]),
        (
            StatusCode::NOT_FOUND,
            &json!("there is no webhook at /interpretation")
        )
    );
    let (code, status) = server.send("GET", "/interpret", "").await;
    assert_eq!(
        (code, &status["message"]),
        (
            StatusCode::METHOD_NOT_ALLOWED,
            &json!("GET is not supported, POST is")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_answers_429_with_retry_after() {
    let limits = Limits {
        requests: 2,
        ..Limits::default()
    };
    let server = server_with(limits);
    let held = [(); 2].map(|()| server.send("POST", "/interpret", silence()));
    let mut held = std::pin::pin!(futures::future::join_all(held));
    assert!(futures::poll!(held.as_mut()).is_pending());
    let request = Request::post("/interpret")
        .body(Body::from(review("InterpretReplica")))
        .unwrap();
    let response = server.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "1");
    assert!(
        server
            .metrics()
            .contains("interpreter_requests_in_flight 2"),
        "{}",
        server.metrics()
    );
    // Slow bodies give their slots back.
    tokio::time::advance(limits.slow).await;
    assert!(futures::poll!(held.as_mut()).is_pending());
    let (code, _) = server
        .send("POST", "/interpret", review("InterpretReplica"))
        .await;
    assert_eq!(code, StatusCode::OK);
    for (code, _) in held.await {
        assert_eq!(code, StatusCode::REQUEST_TIMEOUT);
    }
    assert!(
        server
            .metrics()
            .contains("interpreter_requests_in_flight 0")
    );
}

#[tokio::test]
async fn a_body_that_could_never_be_decoded_within_the_capacity_is_refused() {
    let server = server_with(Limits {
        bytes_in_flight: 16 << 20,
        ..Limits::default()
    });
    let largest = (12 << 20) / 12;
    let (code, status) = server
        .send("POST", "/interpret", vec![b' '; largest + 1])
        .await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
    let message = format!("the body is larger than {largest} bytes");
    assert_eq!(status["message"], message);
    let (code, _) = server.send("POST", "/interpret", vec![b' '; largest]).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_request_holds_capacity_until_the_client_has_taken_the_answer() {
    let server = server_with(Limits {
        bytes_in_flight: 1 << 20,
        ..Limits::default()
    });
    let call = || {
        let request = Request::post("/interpret").body(Body::from(review("InterpretReplica")));
        server.router.clone().oneshot(request.unwrap())
    };
    let mut untaken = Vec::new();
    let refused = loop {
        let response = call().await.unwrap();
        if response.status() != StatusCode::OK {
            break response;
        }
        untaken.push(response);
        assert!(untaken.len() < 1000, "answers are not counted");
    };
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let in_flight = format!("interpreter_requests_in_flight {}", untaken.len());
    assert!(
        server.metrics().contains(&in_flight),
        "{}",
        server.metrics()
    );
    // The data of the answer is still held by the transport after the end of the body.
    let mut bodies = Vec::new();
    for response in untaken {
        bodies.push(response.into_body().collect().await.unwrap().to_bytes());
    }
    assert_eq!(
        call().await.unwrap().status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    drop(bodies);
    assert_eq!(call().await.unwrap().status(), StatusCode::OK);
    assert!(
        server
            .metrics()
            .contains("interpreter_requests_in_flight 0")
    );
}

static CALLED: AtomicBool = AtomicBool::new(false);
static ENTERED: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);
static RELEASED: Barrier = Barrier::new(2);

/// Blocks the thread of the first call until the barrier releases it.
fn blocking_clock() -> Timestamp {
    if !CALLED.swap(true, Ordering::SeqCst) {
        ENTERED.add_permits(1);
        RELEASED.wait();
    }
    Timestamp::UNIX_EPOCH
}

/// On the thread of the connection, and on that of long work.
#[tokio::test]
async fn a_panic_of_a_handler_is_answered() {
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let handle = tokio::runtime::Handle::current();
    let clock = || panic!("in a test");
    let limits = Limits::default();
    let server = Routes::new(metrics, limits, clock, None, Some(handle), None);
    let router = server.together();
    for spaces in [0, 1 << 20] {
        let body = review("InterpretReplica") + &" ".repeat(spaces);
        let request = Request::post("/interpret").body(Body::from(body)).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

/// Here one thread serves all requests, so a large request that used this thread would block the small one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_small_request_is_answered_while_a_large_one_is_interpreted() {
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let long_work = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let handle = long_work.handle().clone();
    let server = Routes::new(
        metrics,
        Limits::default(),
        blocking_clock,
        None,
        Some(handle),
        None,
    );
    let router = server.together();
    let call = |spaces: usize| {
        let body = review("InterpretReplica") + &" ".repeat(spaces);
        let request = Request::post("/interpret").body(Body::from(body)).unwrap();
        tokio::spawn(router.clone().oneshot(request))
    };
    let large = call(1 << 20);
    ENTERED.acquire().await.unwrap().forget();
    let (sender, answered) = mpsc::channel();
    let small = call(0);
    tokio::spawn(async move { sender.send(small.await.unwrap().unwrap().status()) });
    // The runtime has no thread left for a timer if the test fails. The time limit only ends a failing test.
    let answered = answered.recv_timeout(Duration::from_secs(20));
    RELEASED.wait();
    assert_eq!(answered, Ok(StatusCode::OK));
    assert_eq!(large.await.unwrap().unwrap().status(), StatusCode::OK);
    long_work.shutdown_background();
}
