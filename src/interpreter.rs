//! `compute-federation interpreter` runs only Karmada's resource interpreter, without a kubeconfig.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, bail};
use certs::{Acceptor, Certificates, Files};
use controllers::ca_bundle;
use multicluster::clock;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::admin::{self, Readiness};
use crate::args::{CertificateSource, InterpreterArgs};
use crate::bind_address::BindAddress;
use crate::certificate_metrics::{ProblemCollector, Server};
use crate::logging;
use crate::metrics_server;
use crate::serving::{Servers, listen};
use crate::signals::Signals;
use crate::webhook_server::{self, Listeners};

/// The deployed ResourceInterpreterWebhookConfiguration.
const REGISTRATION: &str =
    include_str!("../deploy/components/federation/resource-interpreter-webhook.yaml");

/// Runs the interpreter until SIGTERM or SIGINT, or until a server ends.
///
/// # Errors
///
/// If a part cannot start, or a server fails. Also if a second signal arrives before the process has stopped.
pub(crate) fn run(args: &InterpreterArgs) -> anyhow::Result<()> {
    // The webhook server has its own threads. One thread is enough for probes, metrics and signals.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(serve(args))
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
        CertificateSource::SelfSigned { url } => self_signed(url, &args.bind_address, port)?,
    };
    let listeners = Listeners::Together(listener);
    let webhook_ports = listeners.self_dials()?;
    webhook_server::serve(
        &servers,
        &mut registry,
        &args.server,
        listeners,
        &acceptor,
        None,
        None,
    )?;
    let readiness = Readiness {
        held_by_hub: None,
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

/// Makes a certificate for the address at which Karmada reaches this server. Prints the registration that trusts this
/// certificate.
fn self_signed(url: Option<&str>, bind_address: &str, port: u16) -> anyhow::Result<Acceptor> {
    let url = match url {
        Some(url) => url.to_owned(),
        None => match bind_address {
            "" | "0.0.0.0" | "::" => {
                bail!(
                    "--self-signed at all addresses needs --url, the URL at which Karmada reaches this server"
                )
            }
            host if host.contains(':') => format!("https://[{host}]:{port}/interpret"),
            host => format!("https://{host}:{port}/interpret"),
        },
    };
    let parsed: http::Uri = url.parse().with_context(|| format!("--url {url:?}"))?;
    let host = match (parsed.scheme_str(), parsed.host()) {
        (Some("https"), Some(host)) => host.trim_matches(['[', ']']).to_owned(),
        _ => bail!("--url is {url:?}, must be https://HOST[:PORT]/interpret"),
    };
    let certificates = Certificates::self_signed(&[host], clock::now())?;
    let registration = registration(&url, &ca_bundle::encode(&certificates.authorities))?;
    print_and_close(&registration).context("stdout")?;
    Ok(certificates.into())
}

/// Returns the deployed registration, with this URL and this `caBundle`.
fn registration(url: &str, bundle: &str) -> anyhow::Result<String> {
    let mut registration: Value = serde_saphyr::from_str(REGISTRATION)?;
    let webhooks = registration
        .get_mut("webhooks")
        .and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        if let Some(webhook) = webhook.as_object_mut() {
            webhook.insert(
                "clientConfig".into(),
                json!({"url": url, "caBundle": bundle}),
            );
        }
    }
    Ok(serde_saphyr::to_string(&registration)?)
}

/// Prints a text and closes stdout, so that the reader of a pipe sees the end.
fn print_and_close(text: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "---\n{text}")?;
    out.flush()?;
    let nowhere = File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn the_printed_registration_is_the_deployed_one_with_a_url() {
        let text =
            registration("https://127.0.0.1:9443/interpret", &STANDARD.encode("PEM")).unwrap();
        let registration: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(registration["metadata"]["name"], "compute-federation");
        let [webhook] = registration["webhooks"].as_array().unwrap().as_slice() else {
            panic!("one webhook");
        };
        let config =
            json!({"url": "https://127.0.0.1:9443/interpret", "caBundle": STANDARD.encode("PEM")});
        assert_eq!(webhook["clientConfig"], config);
        assert_eq!(
            webhook["rules"][0]["operations"].as_array().unwrap().len(),
            7
        );
    }
}
