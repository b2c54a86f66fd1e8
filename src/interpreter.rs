//! `compute-federation interpreter` runs only Karmada's resource interpreter, without a kubeconfig.

mod registration;

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, bail};
use certs::{Acceptor, Certificates, Files};
use controllers::ca_bundle;
use multicluster::clock;
use multicluster::lease::Leadership;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::admin::{self, Readiness};
use crate::args::{CertificateSource, InterpreterArgs, InterpreterCommand};
use crate::bind_address::BindAddress;
use crate::certificate_metrics::{ProblemCollector, Server};
use crate::customizations::{self, Served};
use crate::logging;
use crate::metrics_server;
use crate::serving::{Servers, listen};
use crate::signals::Signals;
use crate::webhook_server::{self, Listeners, Protocols};

/// Runs the interpreter until SIGTERM or SIGINT, or until a server ends.
///
/// # Errors
///
/// If a part cannot start, or a server fails. Also if a second signal arrives before the process has stopped.
pub(crate) fn run(args: &InterpreterArgs) -> anyhow::Result<()> {
    if let Some(InterpreterCommand::Registration(args)) = &args.command {
        let registration = registration::of_directory(args)?;
        return Ok(write!(stdout(), "{registration}")?);
    }
    // The webhook server has its own threads. One thread is enough for probes, metrics and signals.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(args));
    // A file system that hangs must not delay the end.
    runtime.shutdown_background();
    ended
}

async fn serve(args: &InterpreterArgs) -> anyhow::Result<()> {
    let source = args.certificate_source()?;
    let mut signals = Signals::new()?;
    let mut registry = Registry::with_prefix("compute_federation");
    logging::register(&mut registry);
    let servers = Servers::default();
    let address = BindAddress::At {
        host: args.bind_address.clone(),
        port: args.port,
    };
    let listener = listen(&address)
        .await?
        .context("the interpreter has no address")?;
    let port = listener.local_addr()?.port();
    // The process listens before it prints the registration. A reader of the registration may assume that the server
    // accepts connections.
    let health_probes = listen(&args.health_probe_bind_address).await?;
    let metrics = listen(&args.metrics_bind_address).await?;
    let mut certificate = None;
    let acceptor = match source {
        CertificateSource::Directory(directory) => {
            let files = Files::from(directory);
            let (acceptor, followed) = webhook_server::follow_certificate(
                &servers,
                &mut registry,
                &args.server,
                files,
                None,
            );
            let problems = vec![(Server::Webhooks, followed.state.clone())];
            registry.register_collector(Box::new(ProblemCollector(problems)));
            certificate = Some(followed);
            acceptor
        }
        CertificateSource::SelfSigned { url } => self_signed(url, args, port)?,
    };
    let listeners = Listeners::Together(listener);
    let webhook_ports = listeners.self_dials()?;
    webhook_server::serve(
        &servers,
        &mut registry,
        &args.server,
        listeners,
        &acceptor,
        Protocols {
            customizations: args.customizations.0.clone().map(|directory| Served {
                directory,
                // Nobody keeps the printed registration.
                rules: watch::Sender::default(),
            }),
            ..Protocols::default()
        },
    )?;
    let readiness = Readiness {
        held_by_hub: None,
        held_report: None,
        leadership: Leadership::without_election(),
        stopping: servers.draining.clone(),
        caches: Vec::new(),
        projects: None,
        certificate,
        webhook_ports,
        metrics_certificate: None,
    };
    if let Some(listener) = health_probes {
        let router = admin::router(readiness);
        servers.serve_operators("health probes", listener, Acceptor::Plain, router);
    }
    if let Some(listener) = metrics {
        let router = metrics_server::router(vec![registry], servers.runtimes(), None);
        servers.serve_operators("metrics", listener, Acceptor::Plain, router);
    }

    let stop: CancellationToken = servers.tasks.stop();
    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping"),
        () = stop.cancelled() => {}
    }
    servers.draining.cancel();
    let delay_over = Instant::now() + args.server.shutdown_delay;
    let failure = servers.end(delay_over, &mut signals).await?;
    match failure {
        Some(failure) => bail!(failure),
        None => info!("stopped"),
    }
    Ok(())
}

/// Makes a certificate for the address at which Karmada reaches this server. Prints the registrations that trust this
/// certificate.
fn self_signed(url: Option<&str>, args: &InterpreterArgs, port: u16) -> anyhow::Result<Acceptor> {
    let url = match url {
        Some(url) => url.to_owned(),
        None => match args.bind_address.as_str() {
            "" | "0.0.0.0" | "::" => {
                bail!(
                    "--self-signed at all addresses needs --url, the URL at which Karmada reaches this server"
                )
            }
            host if host.contains(':') => format!("https://[{host}]:{port}/interpret"),
            host => format!("https://{host}:{port}/interpret"),
        },
    };
    let host = registration::host_of(&url)?;
    let certificates = Certificates::self_signed(&[host], clock::now())?;
    let bundle = ca_bundle::encode(&certificates.authorities);
    let mut registrations = registration::native(&url, &bundle)?;
    if let Some(directory) = &args.customizations.0 {
        let scripts = customizations::of_directory(directory).context("--customizations")?;
        let of_scripts = registration::of_customizations(&scripts, &url, &bundle)?;
        registrations = format!("{registrations}---\n{of_scripts}");
    }
    print_and_close(&registrations).context("stdout")?;
    Ok(certificates.into())
}

/// Prints a text and closes stdout, so that the reader of a pipe sees the end.
fn print_and_close(text: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "---\n{text}")?;
    out.flush()?;
    let nowhere = File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}
