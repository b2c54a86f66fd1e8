//! HTTP of the webhook server: which path leads where, how large and how slow a request may be, and what is counted.
//!
//! What Karmada asks is answered elsewhere (`interpreters`), what API servers ask in [`admission`]; connections and TLS are
//! `certs`'. Failures that have no answer in their own protocol are answered with a Kubernetes `Status`, whose message API
//! clients show.

pub mod admission;
mod body;
mod interpret;
pub mod limits;
pub mod metrics;
mod problems;
mod status;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use http::StatusCode;
use jiff::Timestamp;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{error, warn};

pub use limits::Limits;
pub use metrics::Metrics;

use admission::Projects;
use body::Refusal;
use limits::Capacity;
use metrics::Intake;
use problems::Problems;

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    capacity: Arc<Capacity>,
    problems: Arc<Problems>,
    clock: fn() -> Timestamp,
}

impl Shared {
    /// Answers a request that gets no answer in its protocol; each problem is in the log once.
    fn refuse(&self, intake: &Intake, refusal: &Refusal) -> Response {
        let (reason, problem) = (refusal.reason(), refusal.message());
        intake.refused(reason);
        if self.problems.is_new(&problem) {
            warn!(reason, problem, "{} request refused", intake.protocol);
        }
        refusal.response(&problem)
    }
}

/// The routes of the webhook server: those of the interpreter, and with `projects` those of admission.
pub fn router(
    metrics: Arc<Metrics>,
    limits: Limits,
    clock: fn() -> Timestamp,
    projects: Option<Arc<dyn Projects>>,
) -> Router {
    let shared = Shared {
        metrics,
        capacity: Arc::new(Capacity::new(limits)),
        problems: Arc::default(),
        clock,
    };
    let interpret = post(interpret::handle).fallback(status::method_not_allowed);
    let mut router = Router::new()
        .route("/interpret", interpret.clone())
        .route("/interpret/", interpret)
        .with_state(shared.clone());
    if let Some(projects) = projects {
        let mutate = post(admission::mutate).fallback(status::method_not_allowed);
        let validate = post(admission::validate).fallback(status::method_not_allowed);
        // What tenants send takes nothing of what Karmada needs.
        let shared = Shared {
            capacity: Arc::new(Capacity::new(limits)),
            ..shared
        };
        let admission = Router::new()
            .route(admission::MUTATE_WORKLOAD, mutate)
            .route(admission::VALIDATE_WORKLOAD, validate)
            .with_state((shared, projects));
        router = router.merge(admission);
    }
    router
        .fallback(status::not_found)
        .layer(CatchPanicLayer::custom(panicked))
}

// The layer hands the panic over by value.
#[expect(clippy::needless_pass_by_value)]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    error!(%message, "a handler panicked");
    status::response(
        StatusCode::INTERNAL_SERVER_ERROR,
        "InternalError",
        "the handler panicked; see the log",
    )
}
