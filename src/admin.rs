//! `/healthz` and `/readyz`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use certs::{Authorities, reload};
use controllers::runtime::Synced;
use http::StatusCode;
use multicluster::ProjectRegistry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What must hold for the process to be ready.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// Cancelled when the process stops.
    pub(crate) stopping: CancellationToken,
    /// The caches of the controllers.
    pub(crate) caches: Vec<Synced>,
    /// The projects that admission serves, if it is on.
    pub(crate) projects: Option<ProjectRegistry>,
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
    /// What callers trust, where that is known.
    pub(crate) trusted: Option<watch::Receiver<Authorities>>,
    /// Whether callers have ever trusted what is served.
    pub(crate) introduced: OnceLock<()>,
}

impl Certificate {
    /// What is missing. A process that starts with an authority that callers do not know yet must not be called; from
    /// then on a new certificate waits for their trust, and what is served stays.
    fn missing(&self) -> Option<String> {
        let directory = self.directory.display();
        let state = self.state.borrow();
        if state.not_after.is_none() {
            return Some(format!(
                "no certificate to serve webhooks with in {directory}"
            ));
        }
        let trusted = self.trusted.as_ref()?;
        if self.introduced.get().is_none() && !state.served.is_subset(&trusted.borrow()) {
            return Some(format!(
                "the caBundle of a registration of ours does not hold, or not for long enough, the authorities in {directory}"
            ));
        }
        self.introduced.get_or_init(|| ());
        None
    }
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
        missing.extend(self.projects.iter().flat_map(ProjectRegistry::pending));
        missing.extend(self.certificate.as_ref().and_then(Certificate::missing));
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
