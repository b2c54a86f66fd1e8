//! The admin endpoint: `/healthz` and `/readyz`.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use certs::{Authorities, CertificateState, Problem, SelfDial};
use controllers::lower_hub_controllers::HeldReport;
use controllers::management_controllers::HeldByHub;
use controllers::runtime::Synced;
use futures::future::join_all;
use http::StatusCode;
use multicluster::ProjectRegistry;
use multicluster::lease::Leadership;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The conditions of readiness.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// Whether this process may write, and why it cannot acquire or renew its lease. A process without the lease is ready: it
    /// serves webhooks.
    pub(crate) leadership: Leadership,
    /// Cancelled when the process stops.
    pub(crate) stopping: CancellationToken,
    /// The caches of the controllers.
    pub(crate) caches: Vec<Synced>,
    /// The project registry, if there is one.
    pub(crate) projects: Option<ProjectRegistry>,
    /// The WorkloadDeployments that are not proved to be on the hub in use, if the management controllers are enabled.
    pub(crate) held_by_hub: Option<HeldByHub>,
    /// Whether the report of a lower hub is held, if its controller is enabled.
    pub(crate) held_report: Option<HeldReport>,
    /// The certificate of the webhook server; `None` if the server is off.
    pub(crate) certificate: Option<ServedCertificate>,
    /// The checks of the webhook server's ports; empty if the server is off.
    pub(crate) webhook_ports: Vec<SelfDial>,
    /// The certificate of the metrics server; `None` if the server is off or uses no TLS. Its problems do not affect
    /// readiness.
    pub(crate) metrics_certificate: Option<watch::Receiver<CertificateState>>,
}

/// The certificate of the webhook server.
#[derive(Debug)]
pub(crate) struct ServedCertificate {
    /// The directory of its files.
    pub(crate) directory: PathBuf,
    /// The served certificate.
    pub(crate) state: watch::Receiver<CertificateState>,
    /// The authorities that callers trust; `None` if they are unknown.
    pub(crate) trusted: Option<watch::Receiver<Authorities>>,
    /// Set when callers have trusted the served certificate for the first time.
    pub(crate) was_trusted: OnceLock<()>,
}

impl ServedCertificate {
    /// Returns the missing condition, if there is one. A process whose served certificate every caller refuses must not
    /// be called. If a process starts with an authority that callers do not trust, it must not be called either. After
    /// callers have trusted the certificate once, trust is not checked again, because a
    /// new certificate is served only when callers trust it.
    fn missing(&self) -> Option<String> {
        let directory = self.directory.display();
        let state = self.state.borrow();
        if state.not_after.is_none() {
            let problem = state.problem.as_ref();
            let problem = problem.map_or_else(String::new, |it| format!(": {}", it.message));
            return Some(format!(
                "no certificate to serve webhooks with in {directory}{problem}"
            ));
        }
        if let Some(refusal) = state.refusal() {
            let files = state.problem.as_ref();
            let others = files.filter(|files| !files.message.ends_with(&refusal.message));
            let files = others.map_or_else(String::new, |files| {
                format!("; the files do not replace it: {}", files.message)
            });
            let Problem { message, .. } = refusal;
            return Some(format!(
                "callers refuse the served certificate of {directory}: {message}{files}"
            ));
        }
        let trusted = self.trusted.as_ref()?;
        if self.was_trusted.get().is_none() && !state.served.is_subset(&trusted.borrow()) {
            return Some(format!(
                "the caBundle of a webhook registration could not be read yet, or does not contain the authorities of {directory} for long enough"
            ));
        }
        self.was_trusted.get_or_init(|| ());
        None
    }
}

impl Readiness {
    /// Returns the missing conditions, one line each.
    async fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.stopping.is_cancelled() {
            missing.push("the process is stopping".to_owned());
        }
        let pending = self.caches.iter().flat_map(Synced::pending);
        missing.extend(pending.map(|cache| format!("not listed yet: {cache}")));
        missing.extend(self.projects.iter().flat_map(ProjectRegistry::pending));
        let certificate = self.certificate.as_ref();
        match certificate.and_then(ServedCertificate::missing) {
            // Without a certificate, no handshake can succeed.
            Some(certificate) => missing.push(certificate),
            None => {
                let problems = self.webhook_ports.iter().map(SelfDial::problem);
                missing.extend(join_all(problems).await.into_iter().flatten());
            }
        }
        missing
    }

    /// Returns the problems that do not affect readiness, one line each.
    fn warnings(&self) -> Vec<String> {
        let webhooks = self.certificate.as_ref().map(|it| &it.state);
        let servers = [
            ("", webhooks),
            ("metrics server: ", self.metrics_certificate.as_ref()),
        ];
        let warning = |(server, state): (&str, Option<&watch::Receiver<CertificateState>>)| {
            let state = state?.borrow();
            let served = state.served_problem.as_ref().map(|problem| {
                let Problem { message, .. } = problem;
                format!("{server}callers refuse the served certificate: {message}\n")
            });
            let refusal = state.served_problem.as_ref();
            let is_other = |files: &&Problem| {
                refusal.is_none_or(|refusal| !files.message.ends_with(&refusal.message))
            };
            let files = state.problem.as_ref().filter(is_other).map(|problem| {
                let Problem { message, .. } = problem;
                match refusal {
                    Some(_) => format!("{server}the files do not replace it: {message}\n"),
                    None => format!("{server}the former certificate stays in service: {message}\n"),
                }
            });
            let lines: String = served.into_iter().chain(files).collect();
            (!lines.is_empty()).then_some(lines)
        };
        let hub = self.held_by_hub.as_ref().and_then(HeldByHub::warning);
        let report = self.held_report.as_ref().and_then(HeldReport::warning);
        let lease = self.leadership.problem();
        let lease = lease.map(|problem| {
            format!("nothing is written, because the lease is not acquired or renewed: {problem}")
        });
        let held = [hub, report, lease].into_iter().flatten();
        let held = held.map(|line| line + "\n");
        let servers = servers.into_iter().filter_map(warning);
        servers.chain(held).collect()
    }
}

/// Returns the routes of the admin endpoint.
pub(crate) fn router(readiness: Readiness) -> Router {
    let readyz = |State(readiness): State<Arc<Readiness>>| async move {
        match readiness.missing().await {
            missing if missing.is_empty() => (
                StatusCode::OK,
                "ok\n".to_owned() + &readiness.warnings().concat(),
            ),
            missing => (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n"),
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(readiness))
}
