//! `/healthz` and `/readyz`.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use certs::reload;
use controllers::wiring::Synced;
use http::StatusCode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What must hold for the process to be ready.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// Cancelled when the process stops.
    pub(crate) stopping: CancellationToken,
    /// The caches of the controllers.
    pub(crate) caches: Vec<Synced>,
    /// What the webhook server serves with, if it is on.
    pub(crate) certificate: Option<Certificate>,
}

/// The certificate of the webhook server.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// Where it is read from.
    pub(crate) directory: PathBuf,
    /// What is served.
    pub(crate) state: watch::Receiver<reload::State>,
}

impl Readiness {
    /// What is missing, one line each.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.stopping.is_cancelled() {
            missing.push("the process is stopping".to_owned());
        }
        let pending = self.caches.iter().flat_map(Synced::pending);
        missing.extend(pending.map(|cache| format!("not listed yet: {cache}")));
        if let Some(Certificate { directory, state }) = &self.certificate
            && state.borrow().not_after.is_none()
        {
            missing.push(format!(
                "no certificate to serve webhooks with in {}",
                directory.display()
            ));
        }
        missing
    }

    /// What is wrong although the process is ready.
    fn warning(&self) -> Option<String> {
        let problem = self.certificate.as_ref()?.state.borrow().problem.clone()?;
        Some(format!(
            "the former certificate stays in service: {problem}\n"
        ))
    }
}

/// The routes of the admin endpoint.
pub(crate) fn router(readiness: Readiness) -> Router {
    let readyz = |State(readiness): State<Arc<Readiness>>| async move {
        match readiness.missing() {
            missing if missing.is_empty() => (
                StatusCode::OK,
                "ok\n".to_owned() + &readiness.warning().unwrap_or_default(),
            ),
            missing => (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n"),
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(readiness))
}
