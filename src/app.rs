//! The manager process. It loads the configuration, wires the parts, runs, and drains.

mod clusters;
mod context;
mod endpoints;
mod projects;
mod roles;
mod running;

use std::time::Duration;

use anyhow::Context;
use tracing::{info, warn};

use crate::admin::Readiness;
use crate::allocator;
use crate::args::{Args, OptionalFlag};
use crate::config::Config;
use crate::leadership::LeaderElection;
use crate::signals::Signals;
use context::AppContext;
use controllers::lower_hub_controllers::HeldReport;
use controllers::management_controllers::Management;
use running::RunningApp;

/// Runs the manager until SIGTERM or SIGINT, until one of its tasks ends, or until it loses the lease.
///
/// # Errors
///
/// If the configuration is not valid, a part cannot start, a task fails, or the lease is lost. Also if a second signal
/// arrives before the process has stopped.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let OptionalFlag(config) = &args.server_config;
    let config = Config::load(config.as_deref()).context("--server-config")?;
    let ignored = args.ignored.given();
    if !ignored.is_empty() {
        warn!(
            flags = ignored.join(" "),
            "these flags of the Go manager have no effect"
        );
    }
    if !config.ignored.is_empty() {
        let fields = config.ignored.join(" ");
        warn!(fields, "these fields of the Go manager have no effect");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut app = wire(args, config).await?;
        info!(version = env!("CARGO_PKG_VERSION"), "started");
        app.run(&mut signals).await?;
        app.drain(&mut signals).await
    });
    // A name server that does not answer would delay the end of the process.
    runtime.shutdown_background();
    result
}

/// Wires the parts of the process and starts them.
async fn wire(args: Args, config: Config) -> anyhow::Result<RunningApp> {
    let mut context = AppContext::new(args);
    let memory = allocator::give_back();
    // The guard is disarmed, so this task stops with the servers and not with the guard.
    context
        .servers
        .tasks
        .spawn_cancellable("memory", memory)
        .disarm();

    let own_config = clusters::own_cluster(&context, &config).await?;
    let own = match &own_config {
        Some(config) => Some(clusters::client(&context, config, "own")?),
        None => None,
    };

    let serves_admission = context.serves_admission(&config);
    let registry = match serves_admission || context.args.roles.enable_management_controllers {
        true => projects::registry(&context, &config.discovery, own.clone()).await?,
        false => None,
    };
    // The controllers need the registry, and discovery needs the controllers. Discovery therefore begins after the
    // controllers are created.
    let known = registry.as_ref().map(|known| known.projects.projects());
    let started = roles::start_controllers(&context, &config, own.as_ref(), known).await?;
    let held_by_hub = started.management.as_ref().map(Management::held_by_hub);
    let hub_check = match (&started.management, &started.held_report) {
        (Some(management), _) => Some(management.hub_in_use().into()),
        (None, held) => held.as_ref().map(HeldReport::lower_hub_check),
    };
    let registry = registry.map(|registry| registry.begin(started.management));

    let projects = registry.as_ref().map(|registry| registry.projects.clone());
    let admission = registry.filter(|_| serves_admission);
    let shutdown_delay = match config.webhooks.is_some() {
        true => context.args.server.shutdown_delay,
        false => Duration::ZERO,
    };
    let webhooks = endpoints::start_webhooks(
        &mut context,
        config.webhooks,
        admission,
        config.resolver_usernames,
        own.as_ref(),
        hub_check,
    )
    .await?;
    let certificate = webhooks.certificate.as_ref();
    let metrics =
        endpoints::prepare_metrics(&mut context, config.metrics, certificate, own).await?;
    let readiness = Readiness {
        held_by_hub,
        held_report: started.held_report,
        leadership: context.leadership.clone(),
        stopping: context.servers.draining.clone(),
        caches: started.caches,
        projects,
        certificate: webhooks.certificate,
        webhook_ports: webhooks.ports,
        metrics_certificate: metrics.as_ref().and_then(|it| it.certificate.clone()),
    };
    let AppContext {
        args,
        registry,
        cell_registry,
        planes_metrics,
        controllers,
        servers,
        leadership,
    } = context;
    endpoints::start_admin(&servers, &args, readiness).await?;
    if let Some(metrics) = metrics {
        metrics.serve(&servers, [registry, cell_registry]);
    }
    let election = LeaderElection::start(&args, own_config, &planes_metrics, leadership)?;
    Ok(RunningApp {
        controllers,
        servers,
        election,
        shutdown_delay,
    })
}
