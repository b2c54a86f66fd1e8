//! The wiring of the process: what is started, in which order, and how it ends.

mod clusters;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::{CellName, ProjectName};
use certs::{Acceptor, Certificates, Reloader};
use controllers::ca_bundle::{Delays, Registration};
use controllers::cell_controllers;
use controllers::management_controllers::{self, Management};
use controllers::runtime::Synced;
use kube::Client;
use multicluster::connect;
use multicluster::lease::Leadership;
use multicluster::projects::{DiscoveryKind, ProjectHandler, RegistryBuilder, RegistryContext};
use multicluster::{ProjectRegistry, Tasks, clock};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::admin::{self, Certificate, Readiness};
use crate::admission::Admission;
use crate::allocator;
use crate::args::{Args, Unset};
use crate::config::{Config, Discovery, MetricsServer, WebhookServer};
use crate::leadership::{self, Lease};
use crate::metrics_server;
use crate::serving::{CERTIFICATE_POLL, Servers, listen};
use crate::signals::Signals;
use crate::user_agent::user_agent;
use crate::webhook_server::{self, Callers};

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
    planes_metrics: multicluster::Metrics,
    /// The controllers; they stop first.
    work: Tasks,
    /// The servers; they stop last.
    servers: Servers,
    leadership: Leadership,
    caches: Vec<Synced>,
}

/// The projects that this process knows, or begins to.
struct Engaged<P> {
    projects: P,
    /// The only one, where there are no others.
    only: Option<ProjectName>,
    /// Where admission is registered, if that is known.
    registered: Option<Client>,
}

impl Engaged<RegistryBuilder> {
    /// Begins to find projects. These controllers work on them, if they are enabled.
    fn begin(self, management: Option<Management>) -> Engaged<ProjectRegistry> {
        let attendant =
            management.map(|management| Arc::new(management) as Arc<dyn ProjectHandler>);
        Engaged {
            projects: self.projects.begin(attendant),
            only: self.only,
            registered: self.registered,
        }
    }
}

impl App {
    async fn start(args: Args, config: Config) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        let mut registry = Registry::with_prefix("compute_federation");
        let planes_metrics = multicluster::Metrics::register(&mut registry);
        let mut app = Self {
            leadership: leadership::needed(&args),
            args,
            registry,
            planes_metrics,
            work: Tasks::default(),
            servers: Servers::default(),
            caches: Vec::new(),
        };
        let memory = allocator::give_back();
        let _giving_back = app.servers.tasks.spawn_cancellable("memory", memory);
        let own_config = app.own_cluster(&config).await?;
        let own = match &own_config {
            Some(config) => Some(app.client(config, "own")?),
            None => None,
        };
        let serves_webhooks = config.webhooks.is_some();
        let serves_admission = app.serves_admission(&config);
        let beginning = match serves_admission || app.args.enable_management_controllers {
            true => app.projects(&config.discovery, own.clone()).await?,
            false => None,
        };
        let known = beginning.as_ref().map(|known| known.projects.projects());
        let management = app.start_controllers(&config, own.as_ref(), known).await?;
        let engaged = beginning.map(|beginning| beginning.begin(management));
        let projects = engaged.as_ref().map(|engaged| engaged.projects.clone());
        let admission = engaged.filter(|_| serves_admission);
        let certificate = app.start_webhooks(config.webhooks, admission).await?;
        let readiness = Readiness {
            stopping: app.servers.draining.clone(),
            caches: std::mem::take(&mut app.caches),
            projects,
            certificate,
        };
        app.start_admin(readiness).await?;
        let Self {
            args,
            registry,
            planes_metrics,
            work,
            servers,
            leadership,
            ..
        } = app;
        start_metrics(&servers, config.metrics, registry, own).await?;
        let mut lease = Lease::start(&args, own_config, &planes_metrics, leadership)?;
        info!(version = env!("CARGO_PKG_VERSION"), "started");

        let (work_stop, servers_stop) = (work.stop(), servers.tasks.stop());
        tokio::select! {
            name = signals.next() => info!(signal = name, "stopping"),
            () = work_stop.cancelled() => {}
            () = servers_stop.cancelled() => {}
            // Another process may write from now on: nothing that has begun may be finished.
            error = lease.lost() => return Err(error),
        }
        servers.draining.cancel();
        let delay = match serves_webhooks {
            true => args.server.shutdown_delay,
            false => Duration::ZERO,
        };
        let delay_over = Instant::now() + delay;
        work_stop.cancel();
        let work_failure = tokio::select! {
            failure = work.ended() => failure,
            error = lease.lost() => return Err(error),
            name = signals.next() => bail!("a second {name} came before the controllers had stopped"),
        };
        lease.release().await;
        let servers_failure = servers.end(delay_over, &mut signals).await?;
        if let Some(failure) = work_failure.or(servers_failure) {
            bail!(failure);
        }
        info!("stopped");
        Ok(())
    }

    /// Starts the controllers. Those of the management plane are given back, to work on projects.
    async fn start_controllers(
        &mut self,
        config: &Config,
        own: Option<&Client>,
        projects: Option<ProjectRegistry>,
    ) -> anyhow::Result<Option<Management>> {
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
        if enable_cell_controllers && let Some(own) = own {
            let name: CellName = config.cluster_name.clone().context(
                "--enable-cell-controllers needs discovery.clusterName in the file of --server-config: the name of \
                 this cell, which its copies on the hub carry",
            )?;
            let config = cell_controllers::Config {
                name,
                client: own.clone(),
                hub: self.hub("cell").await?,
                metrics: self.planes_metrics.clone(),
                may_write: self.leadership.gained(),
                clock: clock::now,
            };
            self.caches
                .push(cell_controllers::start(&self.work, config));
        }
        if !enable_management_controllers {
            return Ok(None);
        }
        let config = management_controllers::Config {
            hub: self.hub("management").await?,
            projects: projects.context("--enable-management-controllers needs projects")?,
            metrics: self.planes_metrics.clone(),
            may_write: self.leadership.gained(),
            clock: clock::now,
        };
        let (synced, management) = management_controllers::start(&self.work, config);
        self.caches.push(synced);
        Ok(Some(management))
    }

    /// Whether the webhook server is asked about the objects of projects: there are none in a cell.
    fn serves_admission(&self, config: &Config) -> bool {
        config.webhooks.is_some() && !self.args.enable_cell_controllers
    }

    /// The projects, if there are any to be known.
    async fn projects(
        &self,
        discovery: &Discovery,
        own: Option<Client>,
    ) -> anyhow::Result<Option<Engaged<RegistryBuilder>>> {
        let role = match self.args.enable_management_controllers {
            true => "management",
            false => "admission",
        };
        let engagement = RegistryContext {
            // They are asked until the last request is answered.
            tasks: &self.servers.tasks,
            metrics: &self.planes_metrics,
        };
        let milo = match discovery {
            Discovery::Single => {
                let Some(client) = own else {
                    return Ok(None);
                };
                let name = ProjectName::new(SINGLE)?;
                return Ok(Some(Engaged {
                    projects: ProjectRegistry::single(&engagement, name.clone(), client.clone()),
                    only: Some(name),
                    registered: Some(client),
                }));
            }
            Discovery::Milo(milo) => milo,
        };
        let config = async |field, path: &Option<PathBuf>| {
            let path = path.as_deref().or(self.args.kubeconfig.0.as_deref());
            let config = connect::own_cluster(path).await;
            config.with_context(|| format!("discovery.{field}"))
        };
        let root = config("discoveryKubeconfigPath", &milo.discovery_kubeconfig).await?;
        let client = self.client(&root, "discovery")?;
        let discovery = multicluster::projects::DiscoveryConfig {
            client: client.clone(),
            kind: match milo.internal_service_discovery {
                true => DiscoveryKind::ProjectControlPlane,
                false => DiscoveryKind::Project,
            },
            template: config("projectKubeconfigPath", &milo.project_kubeconfig).await?,
            user_agent: user_agent(role),
            leadership: self.leadership.clone(),
        };
        Ok(Some(Engaged {
            projects: ProjectRegistry::discover(&engagement, discovery)
                .context("discovery.projectKubeconfigPath")?,
            only: None,
            // Webhooks are registered in the Milo root, which is not the infrastructure cluster.
            registered: (!milo.internal_service_discovery).then_some(client),
        }))
    }

    async fn start_webhooks(
        &mut self,
        server: Option<WebhookServer>,
        admission: Option<Engaged<ProjectRegistry>>,
    ) -> anyhow::Result<Option<Certificate>> {
        let Some(WebhookServer { address, files }) = server else {
            return Ok(None);
        };
        let args = &self.args;
        let mut registrations = Vec::new();
        // A cell has no right to what is registered on the hub.
        if args.federation_kubeconfig.0.is_some() && !args.enable_cell_controllers {
            registrations.push((Registration::INTERPRETER, self.hub("management").await?));
        }
        let mut projects: Option<Arc<dyn webhooks::admission::Projects>> = None;
        if let Some(engaged) = admission {
            let kinds = [Registration::MUTATING, Registration::VALIDATING];
            let registered = engaged.registered.into_iter();
            registrations
                .extend(registered.flat_map(|client| kinds.map(|kind| (kind, client.clone()))));
            projects = Some(Arc::new(Admission {
                projects: engaged.projects,
                only: engaged.only,
            }));
        }
        let callers = (!registrations.is_empty()).then(|| Callers {
            tasks: &self.work,
            registrations,
            delays: Delays {
                trust: args.ca_bundle_delay,
                retirement: args.ca_bundle_retirement,
            },
            metrics: self.planes_metrics.clone(),
            may_write: self.leadership.gained(),
        });
        let (acceptor, certificate) = webhook_server::follow_certificate(
            &self.servers,
            &mut self.registry,
            &args.server,
            files,
            callers,
        )
        .context("webhookServer.tls")?;
        if let Some(listener) = listen(&address).await.context("webhookServer")? {
            webhook_server::serve(
                &self.servers,
                &mut self.registry,
                &args.server,
                listener,
                acceptor,
                projects,
            );
        }
        Ok(Some(certificate))
    }

    async fn start_admin(&self, readiness: Readiness) -> anyhow::Result<()> {
        let address = &self.args.health_probe_bind_address;
        if let Some(listener) = listen(address)
            .await
            .context("--health-probe-bind-address")?
        {
            let router = admin::router(readiness);
            self.servers
                .serve_operators("health probes", listener, Acceptor::Plain, router);
        }
        Ok(())
    }
}

async fn start_metrics(
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
        // As the baseline has it: its scraper skips the check.
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
