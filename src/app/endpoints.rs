//! The servers of the process: webhooks, health probes and metrics.

use std::sync::Arc;

use anyhow::Context;
use certs::{Acceptor, Certificates, Reloader};
use controllers::ca_bundle::{Delays, Registration};
use kube::Client;
use multicluster::{ProjectRegistry, clock};
use prometheus_client::registry::Registry;
use webhooks::admission::ProjectLookup;

use super::clusters;
use super::context::AppContext;
use super::projects::DiscoveredProjects;
use crate::admin::{self, Readiness, ServedCertificate};
use crate::admission::RegistryLookup;
use crate::args::Args;
use crate::config::{MetricsServer, WebhookServer};
use crate::metrics_server;
use crate::serving::{CERTIFICATE_POLL, Servers, listen};
use crate::webhook_server::{self, CaBundlePublisher};

/// Starts the webhook server if it is configured. It serves the interpreter. If there is a project registry, it also
/// serves admission.
///
/// # Errors
///
/// If the certificate cannot be served, if the process cannot listen at the address, or if the kubeconfig of the hub
/// cannot be loaded.
pub(super) async fn start_webhooks(
    context: &mut AppContext,
    server: Option<WebhookServer>,
    admission: Option<DiscoveredProjects<ProjectRegistry>>,
) -> anyhow::Result<Option<ServedCertificate>> {
    let Some(WebhookServer { address, files }) = server else {
        return Ok(None);
    };
    let mut registrations = Vec::new();
    // A cell may neither read nor write the webhook registrations on the hub.
    let args = &context.args;
    if args.federation_kubeconfig.0.is_some() && !args.enable_cell_controllers {
        let hub = clusters::hub(context, "management").await?;
        registrations.push((Registration::INTERPRETER, hub));
    }
    let mut projects: Option<Arc<dyn ProjectLookup>> = None;
    if let Some(registry) = admission {
        let kinds = [Registration::MUTATING, Registration::VALIDATING];
        let registered = registry.registered.into_iter();
        registrations
            .extend(registered.flat_map(|client| kinds.map(|kind| (kind, client.clone()))));
        projects = Some(Arc::new(RegistryLookup {
            projects: registry.projects,
            only: registry.only,
        }));
    }
    let publisher = (!registrations.is_empty()).then(|| CaBundlePublisher {
        tasks: &context.controllers,
        registrations,
        delays: Delays {
            trust: args.ca_bundle_delay,
            retirement: args.ca_bundle_retirement,
        },
        metrics: context.planes_metrics.clone(),
        may_write: context.leadership.gained(),
    });
    let (acceptor, certificate) = webhook_server::follow_certificate(
        &context.servers,
        &mut context.registry,
        &args.server,
        files,
        publisher,
    )
    .context("webhookServer.tls")?;
    if let Some(listener) = listen(&address).await.context("webhookServer")? {
        webhook_server::serve(
            &context.servers,
            &mut context.registry,
            &args.server,
            listener,
            acceptor,
            projects,
        );
    }
    Ok(Some(certificate))
}

/// Starts the health probes, unless they are off.
///
/// # Errors
///
/// If the process cannot listen at the address.
pub(super) async fn start_admin(
    servers: &Servers,
    args: &Args,
    readiness: Readiness,
) -> anyhow::Result<()> {
    let listener = listen(&args.health_probe_bind_address)
        .await
        .context("--health-probe-bind-address")?;
    if let Some(listener) = listener {
        let router = admin::router(readiness);
        servers.serve_operators("health probes", listener, Acceptor::Plain, router);
    }
    Ok(())
}

/// Starts the metrics server, unless it is off.
///
/// # Errors
///
/// If the certificate cannot be served, if the process cannot listen at the address, or if no cluster can review
/// tokens.
pub(super) async fn start_metrics(
    servers: &Servers,
    server: MetricsServer,
    registry: Registry,
    own: Option<Client>,
) -> anyhow::Result<()> {
    let MetricsServer {
        address,
        secure,
        files,
    } = server;
    let Some(listener) = listen(&address).await.context("metricsServer")? else {
        return Ok(());
    };
    let (acceptor, reviewer) = if secure {
        let own =
            own.context("metricsServer.secureServing needs the own cluster, which reviews tokens")?;
        let mut reloader = Reloader::new(files, clock::now).context("metricsServer.tls")?;
        // A self-signed certificate is served until the files exist, as in the Go manager. The scraper of the Go
        // manager does not verify the certificate.
        let names = ["localhost".to_owned()];
        reloader.serve_meanwhile(Certificates::self_signed(&names, clock::now())?);
        (servers.reload(reloader, CERTIFICATE_POLL), Some(own))
    } else {
        (Acceptor::Plain, None)
    };
    let router = metrics_server::router(registry, reviewer);
    servers.serve_operators("metrics", listener, acceptor, router);
    Ok(())
}
