//! HTTP part of the webhook server: routes, limits on requests, and metrics.
//!
//! Crate `interpreters` answers the requests of Karmada. Module [`admission`] answers the requests of API servers.
//! Crate `certs` accepts the connections. If a request cannot be answered in its webhook protocol, the answer is an
//! HTTP error with a Kubernetes `Status`. API clients print the message of the `Status`.

pub mod admission;
mod body;
mod bounded;
mod capacity;
mod context;
mod http_error;
mod interpret;
mod limits;
mod log_dedup;
mod metrics;
mod overload;
mod panics;
mod scripts;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use jiff::Timestamp;
use tokio::runtime::Handle;

pub use capacity::long_work_max;
pub use limits::Limits;
pub use log_dedup::LogDedup;
pub use metrics::Metrics;
pub use scripts::{SCRIPTS_AT_ONCE, Scripts};

use admission::{Admission, AdmissionContext};
use capacity::Capacity;
use context::HandlerContext;

/// Returns the router of a server for both protocols (see [`Routes`]).
pub fn router(
    metrics: Arc<Metrics>,
    limits: Limits,
    clock: fn() -> Timestamp,
    admission: Option<Admission>,
) -> Router {
    Routes::new(metrics, limits, clock, admission, None, None).together()
}

/// The routes of the two protocols. The limits hold for all routes together, also if two servers serve them.
pub struct Routes {
    interpreter: Router,
    admission: Router,
}

impl Routes {
    /// Makes the routes. The routes of the interpreter always exist. The routes of admission exist only if `admitting`
    /// is set. `long_work` is the runtime for the work on large bodies; `None` means the runtime of the server. `scripts`
    /// answer requests of Karmada about kinds that are not native.
    pub fn new(
        metrics: Arc<Metrics>,
        limits: Limits,
        clock: fn() -> Timestamp,
        admitting: Option<Admission>,
        long_work: Option<Handle>,
        scripts: Option<Arc<Scripts>>,
    ) -> Self {
        // Interpreter and admission have separate capacities. Otherwise requests of tenants could use up the capacity
        // that Karmada needs.
        let protocols = 1 + usize::from(admitting.is_some());
        let [interpreter, of_admission] = Capacity::of_protocols(&limits, protocols);
        // A larger body could never be decoded within the capacity.
        let body = limits.body.min(interpreter.body_max());
        let context = HandlerContext {
            metrics,
            limits: Limits { body, ..limits },
            capacity: interpreter,
            log_dedup: Arc::default(),
            clock,
            long_work,
            scripts,
        };
        let interpret = post(interpret::handle).fallback(status::method_not_allowed);
        let interpreter = Router::new()
            .route("/interpret", interpret.clone())
            .route("/interpret/", interpret)
            .with_state(Arc::new(context.clone()));
        let mut admission = Router::new();
        if let Some(admitting) = admitting {
            let mutate = post(admission::mutate).fallback(status::method_not_allowed);
            let validate = post(admission::validate).fallback(status::method_not_allowed);
            let deployments =
                post(admission::validate_deployments).fallback(status::method_not_allowed);
            let server = HandlerContext {
                capacity: of_admission,
                ..context
            };
            admission = Router::new()
                .route(admission::MUTATE_WORKLOAD, mutate)
                .route(admission::VALIDATE_WORKLOAD, validate)
                .route(admission::VALIDATE_DEPLOYMENT, deployments)
                .with_state(Arc::new(AdmissionContext {
                    server,
                    admission: admitting,
                }));
        }
        Self {
            interpreter,
            admission,
        }
    }

    /// Returns the router of a server for both protocols.
    pub fn together(self) -> Router {
        complete(self.interpreter.merge(self.admission))
    }

    /// Returns the router of a server for the interpreter, and the router of a server for admission.
    pub fn apart(self) -> (Router, Router) {
        (complete(self.interpreter), complete(self.admission))
    }
}

/// Adds the answer to unknown paths.
fn complete(routes: Router) -> Router {
    routes.fallback(status::not_found)
}
