//! Lets only API servers call admission. Admission acts with the rights of the manager: through its answers, a caller
//! can learn the rights of any user and the cities of any project. Callers of the interpreter are not checked, because
//! Karmada presents no certificate. This is safe, because the interpreter does no I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use certs::ClientNames;
use http::{StatusCode, header};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use tracing::{debug, warn};
use webhooks::admission;

/// Values of the label `reason`.
const NO_CERTIFICATE: &str = "no_certificate";
const WRONG_NAME: &str = "wrong_name";

/// The refused requests, by reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusedClients(Family<RefusalLabels, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

impl RefusedClients {
    /// Registers the metric.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let refused = Self::default();
        // An alert sees the first refusal only if the counter was 0 before.
        for reason in [NO_CERTIFICATE, WRONG_NAME] {
            drop(refused.0.get_or_create(&RefusalLabels { reason }));
        }
        registry.register(
            "admission_clients_refused",
            "Admission requests whose client certificate was refused, by reason",
            refused.0.clone(),
        );
        refused
    }

    /// Creates one sample, for the reference of metrics.
    pub(crate) fn record_examples(&self) {
        drop(self.0.get_or_create(&RefusalLabels { reason: "example" }));
    }
}

/// The state of the check.
struct ClientCheck {
    /// The accepted names. If there are none, every certificate of the CA is accepted.
    names: Vec<String>,
    refused: RefusedClients,
    was_logged: AtomicBool,
}

/// Refuses requests for admission without an accepted client certificate. The server must verify client certificates.
pub(crate) fn require(router: Router, names: Vec<String>, refused: RefusedClients) -> Router {
    let check = ClientCheck {
        names,
        refused,
        was_logged: AtomicBool::default(),
    };
    router.layer(middleware::from_fn_with_state(Arc::new(check), admit))
}

async fn admit(State(check): State<Arc<ClientCheck>>, request: Request, next: Next) -> Response {
    if !admission::is_path(request.uri().path()) {
        return next.run(request).await;
    }
    match check.problem(request.extensions().get()) {
        None => next.run(request).await,
        Some((reason, problem)) => check.refuse(reason, problem),
    }
}

impl ClientCheck {
    fn problem(&self, client: Option<&ClientNames>) -> Option<(&'static str, &'static str)> {
        let Some(client) = client else {
            return Some((
                NO_CERTIFICATE,
                "admission needs a client certificate: configure the API server with an AdmissionConfiguration",
            ));
        };
        let is_accepted = |name: &str| self.names.iter().any(|accepted| accepted == name);
        if self.names.is_empty() || client.iter().any(is_accepted) {
            return None;
        }
        Some((
            WRONG_NAME,
            "the client certificate has none of the names in webhookServer.clientSubjectNames",
        ))
    }

    /// Counts the refusal and returns the answer. Only the first refusal is a warning, because anyone can cause them.
    fn refuse(&self, reason: &'static str, problem: &'static str) -> Response {
        self.refused
            .0
            .get_or_create(&RefusalLabels { reason })
            .inc();
        match self.was_logged.swap(true, Ordering::Relaxed) {
            false => warn!(reason, problem, "admission request refused"),
            true => debug!(reason, problem, "admission request refused"),
        }
        let code = StatusCode::FORBIDDEN;
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": code.as_u16(), "reason": "Forbidden", "message": problem,
        });
        let json = [(header::CONTENT_TYPE, "application/json")];
        (code, json, status.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests;
