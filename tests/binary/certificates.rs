//! Tests of certificate files that cannot be served. No such file may end the process.

use std::process::Stdio;
use std::time::Duration;

use harness::ports;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::client::{TlsConnection, get, issue};
use crate::refusals::kubeconfig;
use crate::{HEAD, WITHIN, command, write};

/// Starts a manager with this server in its config file. Returns the process and the port of its probes.
fn start(directory: &TempDir, server: &str, args: &[&str]) -> (Child, u16) {
    let config = write(directory, "config.yaml", &format!("{HEAD}{server}\n"));
    let health = ports::reserve().unwrap();
    let process = command()
        .arg(format!("--server-config={config}"))
        .arg(format!("--health-probe-bind-address=localhost:{health}"))
        .args(args)
        .stderr(Stdio::null())
        .spawn();
    (process.unwrap(), health)
}

/// Waits until `/readyz` answers with this status and a body that contains `text`. The process must not end.
async fn until(process: &mut Child, health: u16, status: u16, text: &str) {
    let found = async {
        loop {
            if let Some(status) = process.try_wait().unwrap() {
                panic!("the process has ended: {status}");
            }
            match get(health, "/readyz").await {
                Ok((found, body)) if found == status && body.contains(text) => return,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let found = timeout(WITHIN, found).await;
    found.unwrap_or_else(|_| panic!("/readyz does not answer {status} with {text:?}"));
}

#[tokio::test]
async fn a_broken_certificate_at_the_start_is_waited_for() {
    let directory = TempDir::new().unwrap();
    let certificate = write(&directory, "tls.crt", "garbage");
    write(&directory, "tls.key", "garbage");
    let (port, path) = (ports::reserve().unwrap(), directory.path().display());
    let server =
        format!("webhookServer: {{host: localhost, port: {port}, tls: {{certDir: {path}}}}}");
    let (mut process, health) = start(&directory, &server, &["--certificate-poll=50ms"]);
    let problem = format!(
        "no certificate to serve webhooks with in {path}: {certificate}: holds no certificate"
    );
    until(&mut process, health, 503, &problem).await;
    let ca = issue(directory.path());
    until(&mut process, health, 200, "ok\n").await;
    TlsConnection::open(port, &ca).await.unwrap();
}

#[tokio::test]
async fn a_broken_certificate_of_the_metrics_server_does_not_end_the_process() {
    let directory = TempDir::new().unwrap();
    let certificate = write(&directory, "tls.crt", "garbage");
    write(&directory, "tls.key", "garbage");
    let (port, path) = (ports::reserve().unwrap(), directory.path().display());
    let kubeconfig = kubeconfig(&directory);
    let server =
        format!("metricsServer: {{bindAddress: 'localhost:{port}', tls: {{certDir: {path}}}}}");
    let own = format!("--kubeconfig={kubeconfig}");
    let (mut process, health) = start(&directory, &server, &[&own]);
    let problem = format!(
        "ok\nmetrics server: the former certificate stays in service: {certificate}: holds no certificate"
    );
    until(&mut process, health, 200, &problem).await;
    let ca = issue(directory.path());
    timeout(WITHIN, async {
        while TlsConnection::open(port, &ca).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the new certificate is not served");
}
