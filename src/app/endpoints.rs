//! The servers of the process: webhooks, health probes and metrics.

use std::env;
use std::sync::Arc;

use anyhow::Context;
use certs::{Acceptor, CertificateState, Certificates, Reloader, SelfDial};
use controllers::ca_bundle::{Delays, Maintained, Registration};
use controllers::hub_in_use::HubCheck;
use kube::Client;
use multicluster::{ProjectRegistry, clock};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::warn;
use webhooks::admission::Admission;

use super::clusters;
use super::context::AppContext;
use super::projects::DiscoveredProjects;
use crate::admin::{self, Readiness, ServedCertificate};
use crate::admission::{RegistryLookup, resolver_usernames};
use crate::args::Args;
use crate::bind_address::BindAddress;
use crate::certificate_metrics::{ProblemCollector, Server};
use crate::config::{MetricsServer, WebhookServer};
use crate::customizations::Served;
use crate::metrics_server;
use crate::serving::{CERTIFICATE_POLL, Servers, listen};
use crate::webhook_server::{self, CaBundlePublisher, Listeners, Protocols};

/// The parts of the webhook server that readiness checks. There are none if the server is off.
#[derive(Default)]
pub(super) struct WebhookEndpoint {
    pub(super) certificate: Option<ServedCertificate>,
    pub(super) ports: Vec<SelfDial>,
}

/// Starts the webhook server if it is configured. It serves the interpreter. If there is a project registry, it also
/// serves admission. `resolvers` are the configured names of the users that may change the annotations about referenced
/// data. `own` is the own cluster. `hub_check` protects the registrations of another installation's hub, and of another
/// lower hub; only the controllers that know the records have it.
///
/// # Errors
///
/// If the process cannot listen at the address, or if the hub's kubeconfig cannot be loaded.
pub(super) async fn start_webhooks(
    context: &mut AppContext,
    server: Option<WebhookServer>,
    registry: Option<DiscoveredProjects<ProjectRegistry>>,
    resolvers: Vec<String>,
    own: Option<&Client>,
    hub_check: Option<HubCheck>,
) -> anyhow::Result<WebhookEndpoint> {
    let Some(WebhookServer {
        address,
        interpreter,
        files,
        clients,
        customizations,
    }) = server
    else {
        return Ok(WebhookEndpoint::default());
    };
    let mut registrations = Vec::new();
    let rules = watch::Sender::default();
    let args = &context.args;
    if let Some(hub) = registering_hub(context, own).await? {
        if customizations.is_some() {
            registrations.push(Maintained {
                rules: Some(rules.subscribe()),
                hub: hub_check.clone(),
                ..Maintained::ca_bundle(Registration::CUSTOMIZATIONS, hub.clone())
            });
        }
        registrations.push(Maintained {
            hub: hub_check,
            ..Maintained::ca_bundle(Registration::INTERPRETER, hub)
        });
    }
    let mut admission = None;
    let mut are_all = true;
    if let Some(registry) = registry {
        are_all = registry.registered.is_some();
        if clients.is_none() {
            warn!(
                "everyone who reaches the webhook port can call admission: set webhookServer.clientCAName, or let a \
                 network policy admit only API servers (docs/operate/certificates.md#verify-the-callers-of-admission)"
            );
        }
        let kinds = [Registration::MUTATING, Registration::VALIDATING];
        let registered = registry.registered.into_iter();
        registrations.extend(registered.flat_map(|client| {
            kinds.map(|registration| Maintained::ca_bundle(registration, client.clone()))
        }));
        let lookup = RegistryLookup {
            projects: registry.projects,
            only: registry.only,
            runtime: Handle::current(),
            callers: Arc::default(),
        };
        admission = Some(Admission {
            projects: Arc::new(lookup),
            resolvers: resolver_usernames(resolvers, |name| env::var(name).ok()).into(),
        });
    }
    let publisher = (!registrations.is_empty()).then(|| CaBundlePublisher {
        tasks: &context.controllers,
        registrations,
        are_all,
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
    );
    let mut ports = Vec::new();
    let listeners = webhook_listeners(&address, interpreter.as_ref(), admission.is_some());
    if let Some(listeners) = listeners.await.context("webhookServer")? {
        ports = listeners.self_dials()?;
        webhook_server::serve(
            &context.servers,
            &mut context.registry,
            &args.server,
            listeners,
            &acceptor,
            Protocols {
                admission,
                clients,
                customizations: customizations.map(|directory| Served { directory, rules }),
            },
        )
        .context("webhookServer")?;
    }
    Ok(WebhookEndpoint {
        certificate: Some(certificate),
        ports,
    })
}

/// Returns the hub on which the registrations of the interpreter are maintained: that of the management process, or the
/// own cluster of the process of a lower hub. A cell and a lower hub may neither read nor write those of the hub above
/// them.
async fn registering_hub(
    context: &AppContext,
    own: Option<&Client>,
) -> anyhow::Result<Option<Client>> {
    let args = &context.args;
    if args.roles.enable_lower_hub_controllers {
        return Ok(own.cloned());
    }
    match args.federation_kubeconfig.0.is_some() && args.roles.manages_the_hub() {
        true => clusters::hub(context, "management").await.map(Some),
        false => Ok(None),
    }
}

/// Listens at the addresses of the webhook server. Without admission, an interpreter with an address of its own needs
/// no other address.
async fn webhook_listeners(
    address: &BindAddress,
    interpreter: Option<&BindAddress>,
    serves_admission: bool,
) -> anyhow::Result<Option<Listeners>> {
    let Some(interpreter) = interpreter else {
        return Ok(listen(address).await?.map(Listeners::Together));
    };
    let interpreter = listen(interpreter).await?;
    if !serves_admission {
        return Ok(interpreter.map(Listeners::Together));
    }
    let admission = listen(address).await?;
    let both = interpreter.zip(admission);
    Ok(both.map(|(interpreter, admission)| Listeners::Apart {
        interpreter,
        admission,
    }))
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

/// Prepares the metrics server, unless it is off. Follows its certificate files and registers the metrics of all
/// certificates. A certificate that cannot be served is waited for, because it must not end the other roles.
///
/// # Errors
///
/// If the process cannot listen at the address, or if no cluster can review tokens.
pub(super) async fn prepare_metrics(
    context: &mut AppContext,
    server: MetricsServer,
    webhooks: Option<&ServedCertificate>,
    own: Option<Client>,
) -> anyhow::Result<Option<MetricsEndpoint>> {
    let MetricsServer {
        address,
        secure,
        files,
    } = server;
    let Some(listener) = listen(&address).await.context("metricsServer")? else {
        return Ok(None);
    };
    let mut followed: Vec<_> = webhooks
        .map(|webhooks| (Server::Webhooks, webhooks.state.clone()))
        .into_iter()
        .collect();
    let mut endpoint = MetricsEndpoint {
        listener,
        acceptor: Acceptor::Plain,
        reviewer: None,
        certificate: None,
    };
    if secure {
        let own =
            own.context("metricsServer.secureServing needs the own cluster, which reviews tokens")?;
        // A self-signed certificate is served until the files can be served, as in the Go manager. The scraper of the
        // Go manager does not verify the certificate.
        let names = ["localhost".to_owned()];
        let substitute = Certificates::self_signed(&names, clock::now())?;
        let reloader = Reloader::with_substitute(files, clock::now, substitute);
        followed.push((Server::Metrics, reloader.state()));
        endpoint.certificate = Some(reloader.state());
        endpoint.acceptor = context.servers.reload(reloader, CERTIFICATE_POLL);
        endpoint.reviewer = Some(own);
    }
    let problems = Box::new(ProblemCollector(followed));
    context.registry.register_collector(problems);
    Ok(Some(endpoint))
}

/// The metrics server before it starts.
pub(super) struct MetricsEndpoint {
    listener: TcpListener,
    acceptor: Acceptor,
    /// A client of the cluster that reviews tokens; `None` if everyone may read the metrics.
    reviewer: Option<Client>,
    /// The certificate; `None` without TLS.
    pub(super) certificate: Option<watch::Receiver<CertificateState>>,
}

impl MetricsEndpoint {
    /// Starts to serve the registries.
    pub(super) fn serve(self, servers: &Servers, registries: [Registry; 2]) {
        let router = metrics_server::router(registries.into(), servers.runtimes(), self.reviewer);
        servers.serve_operators("metrics", self.listener, self.acceptor, router);
    }
}
