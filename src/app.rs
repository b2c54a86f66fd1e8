//! The wiring of the process: what is started, in which order, and how it ends.

use std::sync::Arc;

use anyhow::{Context, bail};
use api::{CellName, ProjectName};
use certs::{Acceptor, CertificateError, Certificates, Files, Reloader};
use controllers::wiring::Synced;
use controllers::{cell, management};
use kube::Client;
use planes::{Tasks, clock, connect};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admin::{self, Certificate, Readiness};
use crate::args::{Args, BindAddress, Unset};
use crate::config::{Config, MetricsServer, WebhookServer};
use crate::leadership::Lease;
use crate::metrics_server::{self, CertificateMetrics};
use crate::serving::{listen, serve, start_reloading};

/// Name of the one project of `discovery.mode: single` (compute.md 5.1).
const SINGLE: &str = "single";

/// Runs until SIGTERM or SIGINT, or until something that is needed ends.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // An error means that a provider has been installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Unset(config) = &args.server_config;
    let config = Config::load(config.as_deref()).context("--server-config")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(App::start(args, config))
}

/// What is shared while the process starts.
struct App {
    args: Args,
    registry: Registry,
    planes_metrics: planes::Metrics,
    /// The controllers; they stop first.
    work: Tasks,
    /// The servers; they stop last.
    servers: Tasks,
    may_write: CancellationToken,
    caches: Vec<Synced>,
}

impl App {
    async fn start(args: Args, config: Config) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        let mut registry = Registry::with_prefix("compute_federation");
        let planes_metrics = planes::Metrics::register(&mut registry);
        let mut app = Self {
            args,
            registry,
            planes_metrics,
            work: Tasks::default(),
            servers: Tasks::default(),
            may_write: CancellationToken::new(),
            caches: Vec::new(),
        };
        let own = app.own_cluster(&config).await?;
        app.start_controllers(&config, own.as_ref()).await?;
        let certificate = app.start_webhooks(config.webhooks).await?;
        let readiness = Readiness {
            stopping: app.work.stop(),
            caches: std::mem::take(&mut app.caches),
            certificate,
        };
        app.start_admin(readiness).await?;
        let Self {
            args,
            registry,
            planes_metrics,
            work,
            servers,
            may_write,
            ..
        } = app;
        start_metrics(&servers, config.metrics, registry, own.clone()).await?;
        let mut lease = Lease::start(&args, own, &planes_metrics, may_write)?;
        info!(version = env!("CARGO_PKG_VERSION"), "started");

        let (work_stop, servers_stop) = (work.stop(), servers.stop());
        tokio::select! {
            name = signals.next() => info!(signal = name, "stopping"),
            () = work_stop.cancelled() => {}
            () = servers_stop.cancelled() => {}
            // Another process may write from now on: nothing that has begun may be finished.
            error = lease.lost() => return Err(error),
        }
        work_stop.cancel();
        let work_failure = tokio::select! {
            failure = work.ended() => failure,
            error = lease.lost() => return Err(error),
            name = signals.next() => bail!("a second {name} came before the controllers had stopped"),
        };
        lease.release().await;
        servers_stop.cancel();
        let servers_failure = tokio::select! {
            failure = servers.ended() => failure,
            name = signals.next() => bail!("a second {name} came before all requests were answered"),
        };
        if let Some(failure) = work_failure.or(servers_failure) {
            bail!(failure);
        }
        info!("stopped");
        Ok(())
    }

    /// A client of the own cluster, if anything needs it.
    async fn own_cluster(&self, config: &Config) -> anyhow::Result<Option<Client>> {
        let args = &self.args;
        let reviews = config.metrics.secure && config.metrics.address != BindAddress::Off;
        let needs = [
            (
                args.enable_management_controllers,
                "--enable-management-controllers",
            ),
            (args.enable_cell_controllers, "--enable-cell-controllers"),
            (args.leader_elect, "--leader-elect"),
            (
                reviews,
                "metricsServer.secureServing, which is on unless it is false,",
            ),
        ];
        let Some((_, who)) = needs.into_iter().find(|(needs, _)| *needs) else {
            return Ok(None);
        };
        let Unset(path) = &args.kubeconfig;
        let config = connect::own_cluster(path.as_deref()).await;
        let config = config.with_context(|| match path {
            Some(_) => "--kubeconfig".to_owned(),
            None => format!("{who} needs the own cluster"),
        })?;
        Ok(Some(connect::client(config, &user_agent("own"))?))
    }

    async fn hub(&self, role: &str) -> anyhow::Result<Client> {
        let (Unset(path), Unset(context)) = (
            &self.args.federation_kubeconfig,
            &self.args.federation_context,
        );
        let flag = format!("--enable-{role}-controllers");
        let path = path
            .as_deref()
            .with_context(|| format!("{flag} needs --federation-kubeconfig: where the hub is"))?;
        let config = connect::kubeconfig(path, context.as_deref())
            .await
            .context("--federation-kubeconfig")?;
        Ok(connect::client(config, &user_agent(role))?)
    }

    async fn start_controllers(
        &mut self,
        config: &Config,
        own: Option<&Client>,
    ) -> anyhow::Result<()> {
        let Args {
            enable_management_controllers,
            enable_cell_controllers,
            ..
        } = self.args;
        if !(enable_management_controllers || enable_cell_controllers || config.webhooks.is_some())
        {
            warn!(
                "nothing is enabled: set --enable-management-controllers, --enable-cell-controllers, or webhookServer \
                 in the file of --server-config"
            );
        }
        let Some(client) = own else { return Ok(()) };
        if enable_management_controllers {
            let config = management::Config {
                project: ProjectName::new(SINGLE)?,
                client: client.clone(),
                hub: self.hub("management").await?,
                metrics: self.planes_metrics.clone(),
                may_write: self.may_write.clone(),
                clock: clock::now,
            };
            self.caches.push(management::start(&self.work, config));
        }
        if enable_cell_controllers {
            let name: CellName = config.cluster_name.clone().context(
                "--enable-cell-controllers needs discovery.clusterName in the file of --server-config: the name of \
                 this cell, which its copies on the hub carry",
            )?;
            let config = cell::Config {
                name,
                client: client.clone(),
                hub: self.hub("cell").await?,
                metrics: self.planes_metrics.clone(),
                may_write: self.may_write.clone(),
                clock: clock::now,
            };
            self.caches.push(cell::start(&self.work, config));
        }
        Ok(())
    }

    async fn start_webhooks(
        &mut self,
        server: Option<WebhookServer>,
    ) -> anyhow::Result<Option<Certificate>> {
        let Some(WebhookServer { address, files }) = server else {
            return Ok(None);
        };
        let directory = files.directory.clone();
        let metrics = Arc::new(webhooks::Metrics::register(&mut self.registry));
        let router = webhooks::router(metrics, clock::now);
        let reloader = Reloader::new(files, clock::now).context("webhookServer.tls")?;
        let state = reloader.state();
        self.registry
            .register_collector(Box::new(CertificateMetrics(state.clone())));
        let acceptor = start_reloading(&self.servers, reloader);
        if let Some(listener) = listen(&address).await.context("webhookServer")? {
            serve(&self.servers, "webhooks", listener, acceptor, router);
        }
        Ok(Some(Certificate { directory, state }))
    }

    async fn start_admin(&self, readiness: Readiness) -> anyhow::Result<()> {
        let address = &self.args.health_probe_bind_address;
        if let Some(listener) = listen(address)
            .await
            .context("--health-probe-bind-address")?
        {
            serve(
                &self.servers,
                "health probes",
                listener,
                Acceptor::Plain,
                admin::router(readiness),
            );
        }
        Ok(())
    }
}

async fn start_metrics(
    servers: &Tasks,
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
    if !secure {
        serve(
            servers,
            "metrics",
            listener,
            Acceptor::Plain,
            metrics_server::router(registry, None),
        );
        return Ok(());
    }
    let own =
        own.context("metricsServer.secureServing needs the own cluster, which reviews tokens")?;
    let acceptor = metrics_acceptor(servers, files).context("metricsServer.tls")?;
    serve(
        servers,
        "metrics",
        listener,
        acceptor,
        metrics_server::router(registry, Some(own)),
    );
    Ok(())
}

/// Without a certificate in the directory a self-signed one serves, as the baseline has it: its scraper skips the check.
fn metrics_acceptor(servers: &Tasks, files: Files) -> Result<Acceptor, CertificateError> {
    match files.load(clock::now()) {
        Err(CertificateError::Missing(_)) => {
            Ok(Certificates::self_signed(&["localhost".to_owned()], clock::now())?.into())
        }
        Err(error) => Err(error),
        Ok(_) => Ok(start_reloading(servers, Reloader::new(files, clock::now)?)),
    }
}

fn user_agent(role: &str) -> String {
    format!("compute-federation/{} ({role})", env!("CARGO_PKG_VERSION"))
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
