//! Tests of scripts through the router.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::*;
use crate::{Limits as ServerLimits, Metrics, Routes};

/// A script that does not end by itself. Errors are slow, so its time ends before its instructions.
const ENDLESS: &str = "function InterpretHealth() while true do pcall(string.rep) end end";

fn interpreter(scripts: &[(&str, &str)]) -> LuaInterpreter {
    let customization = |(kind, script): &(&str, &str)| {
        serde_json::from_value(json!({
            "kind": "ResourceInterpreterCustomization", "metadata": {"name": kind.to_lowercase()},
            "spec": {
                "target": {"apiVersion": "example.com/v1", "kind": kind},
                "customizations": {"healthInterpretation": {"luaScript": script}},
            },
        }))
        .unwrap()
    };
    let all: Vec<_> = scripts.iter().map(customization).collect();
    LuaInterpreter::new(&all, Scripts::limits()).unwrap()
}

/// A server with scripts.
struct Server {
    router: Router,
    scripts: Arc<Scripts>,
    threads: Option<Runtime>,
}

impl Server {
    fn start(interpreter: LuaInterpreter) -> Self {
        let threads = Builder::new_multi_thread()
            .worker_threads(SCRIPTS_AT_ONCE)
            .build()
            .unwrap();
        let scripts = Arc::new(Scripts::new(threads.handle().clone()));
        scripts.replace(interpreter);
        let metrics = Arc::new(Metrics::register(&mut Registry::default()));
        let clock = || Timestamp::UNIX_EPOCH;
        let served = Some(Arc::clone(&scripts));
        let routes = Routes::new(metrics, ServerLimits::default(), clock, None, None, served);
        Self {
            router: routes.together(),
            scripts,
            threads: Some(threads),
        }
    }

    /// Asks for the health of an object. Returns the response of the protocol.
    async fn health(&self, group: &str, kind: &str) -> Value {
        self.health_from(None, group, kind).await
    }

    /// Asks for the health of an object from this source address.
    async fn health_from(&self, source: Option<[u8; 4]>, group: &str, kind: &str) -> Value {
        let version = if group == api::GROUP {
            api::VERSION
        } else {
            "v1"
        };
        let body = json!({"request": {
            "uid": "u1", "kind": {"group": group, "version": version, "kind": kind},
            "operation": "InterpretHealth", "object": {"spec": {"replicas": 0}},
        }});
        let request = Request::post("/interpret?timeout=30s").body(Body::from(body.to_string()));
        let mut request = request.unwrap();
        if let Some(source) = source {
            request.extensions_mut().insert(IpAddr::from(source));
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        answer["response"].take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.threads.take().unwrap().shutdown_background();
    }
}

#[tokio::test]
async fn scripts_answer_for_kinds_that_are_not_native() {
    let healthy = "function InterpretHealth(o) return o.spec.replicas == 0 end";
    let server = Server::start(interpreter(&[("A", healthy)]));
    let answer = server.health("example.com", "A").await;
    assert_eq!(
        answer,
        json!({"uid": "u1", "successful": true, "healthy": true})
    );
    // A native kind, and kinds without scripts.
    let native = server.health(api::GROUP, "WorkloadDeployment").await;
    assert_eq!(native["healthy"], true);
    for (group, kind) in [("example.com", "B"), ("other.example.com", "A")] {
        let unknown = server.health(group, kind).await;
        let message = unknown["status"]["message"].as_str().unwrap();
        assert!(message.contains("is not interpreted here"), "{message}");
    }
    server.scripts.replace(interpreter(&[(
        "A",
        "function InterpretHealth() return false end",
    )]));
    assert_eq!(server.health("example.com", "A").await["healthy"], false);
}

#[tokio::test]
async fn the_error_of_a_script_names_it() {
    let server = Server::start(interpreter(&[(
        "A",
        "function InterpretHealth(o)\n return o.status.x end",
    )]));
    let answer = server.health("example.com", "A").await;
    assert_eq!(answer["successful"], false);
    let message = answer["status"]["message"].as_str().unwrap();
    let expected = "ResourceInterpreterCustomization a, spec.customizations.healthInterpretation.luaScript: line 2";
    assert!(message.starts_with(expected), "{message}");
}

/// While 64 calls of a hostile script run or wait, native calls and calls of other scripts are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_script_delays_no_other_call() {
    let healthy = "function InterpretHealth() return true end";
    let server = Arc::new(Server::start(interpreter(&[
        ("Hostile", ENDLESS),
        ("A", healthy),
    ])));
    let hostile = (0..64).map(|_| {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.health("example.com", "Hostile").await })
    });
    let mut hostile: Vec<_> = hostile.collect();
    // The first calls hold all places of their kind.
    let places = || server.scripts.idle.available_permits();
    while places() > SCRIPTS_AT_ONCE - OF_KIND_AT_ONCE {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        assert_eq!(
            server.health(api::GROUP, "WorkloadDeployment").await["healthy"],
            true
        );
        assert_eq!(server.health("example.com", "A").await["healthy"], true);
    }
    assert!(hostile.iter().any(|call| !call.is_finished()));
    // A call that has waited for a place in vain fails.
    let first = loop {
        if let Ok(answer) = hostile.swap_remove(0).await {
            break answer;
        }
    };
    let message = first["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("exceeds the time limit of the call"),
        "{message}"
    );
    // A client that goes away stops its script.
    for call in &hostile {
        call.abort();
    }
    drop(join_all(hostile).await);
    while places() < SCRIPTS_AT_ONCE {
        tokio::task::yield_now().await;
    }
}

/// While 64 calls of a source address run or wait, for three kinds whose scripts do not end, the scripts of another source
/// address run, also those of the same kinds. The source address could use all threads, and all places of the first kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_address_delays_no_call_of_another() {
    let healthy = "function InterpretHealth() return true end";
    let server = Arc::new(Server::start(interpreter(&[
        ("A", healthy),
        ("B", ENDLESS),
        ("C", ENDLESS),
        ("D", ENDLESS),
    ])));
    let kinds = ["B", "C", "D"];
    let hostile = (0..64).map(|call| {
        let server = Arc::clone(&server);
        let kind = kinds[call * kinds.len() / 64];
        tokio::spawn(async move {
            server
                .health_from(Some([10, 0, 0, 1]), "example.com", kind)
                .await
        })
    });
    let hostile: Vec<_> = hostile.collect();
    let idle = || server.scripts.idle.available_permits();
    while idle() > SCRIPTS_AT_ONCE - OF_SOURCE_AT_ONCE {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        let answer = server.health_from(Some([10, 0, 0, 2]), "example.com", "A");
        assert_eq!(answer.await["healthy"], true);
    }
    // One more call of each kind runs for another source address.
    for kind in kinds {
        let answer = server.health_from(Some([10, 0, 0, 2]), "example.com", kind);
        let message = answer.await["status"]["message"].to_string();
        assert!(message.contains("time limit"), "{message}");
    }
    for call in &hostile {
        call.abort();
    }
    drop(join_all(hostile).await);
    while idle() < SCRIPTS_AT_ONCE {
        tokio::task::yield_now().await;
    }
    while server.scripts.of_sources.count() > 0 {
        tokio::task::yield_now().await;
    }
}
