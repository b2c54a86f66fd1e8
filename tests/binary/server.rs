//! Tests of the manager: probes, certificates and requests over TLS.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use harness::ports;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::client::{TlsConnection, get, issue, review};
use crate::{HEAD, WITHIN, command, write};

/// A running manager without a kubeconfig. Such a manager serves only the interpreter.
struct ManagerProcess {
    process: Child,
    directory: TempDir,
    health: u16,
    webhooks: u16,
    metrics: u16,
}

impl ManagerProcess {
    fn start(args: &[&str]) -> Self {
        Self::start_with("", args)
    }

    /// Starts a process with more fields of `webhookServer`.
    fn start_with(fields: &str, args: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let [health, webhooks, metrics] = [
            ports::reserve().unwrap(),
            ports::reserve().unwrap(),
            ports::reserve().unwrap(),
        ];
        let tls = format!("tls: {{certDir: {}}}", directory.path().display());
        let config = format!(
            "{HEAD}webhookServer: {{host: localhost, port: {webhooks}, {fields} {tls}}}\n\
             metricsServer: {{secureServing: false, bindAddress: 'localhost:{metrics}'}}\n"
        );
        let config = write(&directory, "config.yaml", &config);
        let process = command()
            .arg(format!("--server-config={config}"))
            .arg(format!("--health-probe-bind-address=localhost:{health}"))
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            process,
            directory,
            health,
            webhooks,
            metrics,
        }
    }

    /// Waits until a probe answers with this status. Returns the body of the answer.
    async fn until(&self, path: &str, status: u16) -> String {
        timeout(WITHIN, async {
            loop {
                if let Ok((found, body)) = get(self.health, path).await
                    && found == status
                {
                    return body;
                }
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{path} does not become {status}"))
    }

    async fn post(
        &self,
        trusted: &CertificateDer<'static>,
        path: &str,
        body: &[u8],
    ) -> io::Result<(u16, Value)> {
        Self::post_to(self.webhooks, trusted, path, body).await
    }

    async fn post_to(
        port: u16,
        trusted: &CertificateDer<'static>,
        path: &str,
        body: &[u8],
    ) -> io::Result<(u16, Value)> {
        let mut connection = TlsConnection::open(port, trusted).await?;
        let (status, body) = connection.post(path, body).await?;
        Ok((status, serde_json::from_str(&body).unwrap()))
    }
}

#[tokio::test]
async fn the_interpreter_runs_without_a_kubeconfig_and_answers_bad_requests_clearly() {
    let server = ManagerProcess::start(&[]);
    let missing = server.until("/readyz", 503).await;
    let expected = format!(
        "no certificate to serve webhooks with in {directory}: {directory}/tls.crt: no such file\n",
        directory = server.directory.path().display()
    );
    assert_eq!(missing, expected);
    server.until("/healthz", 200).await;
    let ca = issue(server.directory.path());
    server.until("/readyz", 200).await;

    let (status, answer) = server
        .post(
            &ca,
            "/interpret?timeout=3s",
            &review("InterpretReplica", "WorkloadDeployment"),
        )
        .await
        .unwrap();
    assert_eq!((status, &answer["response"]["replicas"]), (200, &json!(3)));
    let (status, answer) = server
        .post(&ca, "/interpret", &review("Prune", "WorkloadDeployment"))
        .await
        .unwrap();
    assert_eq!(
        (status, &answer["response"]["successful"]),
        (200, &json!(false))
    );
    assert!(
        answer["response"]["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("request.operation: ")
    );
    let (status, answer) = server
        .post(&ca, "/interpret", &review("InterpretReplica", "Pod"))
        .await
        .unwrap();
    assert_eq!(status, 200);
    assert!(
        answer["response"]["status"]["message"]
            .as_str()
            .unwrap()
            .starts_with("request.kind: ")
    );
    let (status, answer) = server.post(&ca, "/interpret", b"not json").await.unwrap();
    assert_eq!((status, &answer["reason"]), (400, &json!("BadRequest")));
    let (status, answer) = server
        .post(&ca, "/interpret", &vec![b' '; 9 << 20])
        .await
        .unwrap();
    assert_eq!(
        (status, &answer["reason"]),
        (413, &json!("RequestEntityTooLarge"))
    );
    let (status, _) = server.post(&ca, "/elsewhere", b"{}").await.unwrap();
    assert_eq!(status, 404);

    let (status, metrics) = get(server.metrics, "/metrics").await.unwrap();
    assert_eq!(status, 200);
    for expected in [
        "compute_federation_interpreter_requests_total{operation=\"InterpretReplica\",kind=\"WorkloadDeployment\",outcome=\"success\"} 1",
        "compute_federation_interpreter_requests_refused_total{reason=\"malformed\"} 1",
        "compute_federation_certificate_not_after_seconds ",
        "compute_federation_certificate_reloads_total 1",
    ] {
        assert!(
            metrics.contains(expected),
            "{expected} is not in:\n{metrics}"
        );
    }
}

#[tokio::test]
async fn the_interpreter_can_have_a_port_of_its_own() {
    const MUTATE: &str = "/mutate-compute-datumapis-com-v1alpha-workload";
    const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: own, \
        contexts: [{name: own, context: {cluster: own, user: own}}], users: [{name: own, user: {token: t}}], \
        clusters: [{name: own, cluster: {server: 'http://127.0.0.1:1'}}]}";
    let directory = TempDir::new().unwrap();
    // With a kubeconfig, admission is served, even if the API server is down.
    let kubeconfig = write(&directory, "kubeconfig", KUBECONFIG);
    let kubeconfig = format!("--kubeconfig={kubeconfig}");
    let interpreter = ports::reserve().unwrap();
    let fields = format!("interpreterPort: {interpreter},");
    let server = ManagerProcess::start_with(&fields, &[&kubeconfig]);
    let ca = issue(server.directory.path());
    let interpret = review("InterpretReplica", "WorkloadDeployment");
    let admit = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": "DELETE",
            "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"},
        },
    });
    let admit = admit.to_string().into_bytes();
    let listening = async {
        for port in [interpreter, server.webhooks] {
            while TlsConnection::open(port, &ca).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    timeout(WITHIN, listening)
        .await
        .expect("a port is not served");
    let readyz = server.until("/readyz", 503).await;
    assert!(!readyz.contains("TLS"), "{readyz}");
    for (port, path, body, expected) in [
        (interpreter, "/interpret", &interpret, 200),
        (server.webhooks, MUTATE, &admit, 200),
        (interpreter, MUTATE, &admit, 404),
        (server.webhooks, "/interpret", &interpret, 404),
    ] {
        let answered = ManagerProcess::post_to(port, &ca, path, body).await;
        let (status, answer) = answered.unwrap();
        assert_eq!(status, expected, "{path}: {answer}");
    }
}

#[tokio::test]
async fn an_interpreter_without_admission_listens_only_at_its_own_port() {
    let interpreter = ports::reserve().unwrap();
    let fields = format!("interpreterPort: {interpreter},");
    let server = ManagerProcess::start_with(&fields, &[]);
    let ca = issue(server.directory.path());
    server.until("/readyz", 200).await;
    let body = review("InterpretReplica", "WorkloadDeployment");
    let answered = ManagerProcess::post_to(interpreter, &ca, "/interpret", &body).await;
    assert_eq!(answered.unwrap().0, 200);
    let refused = TcpStream::connect(("localhost", server.webhooks)).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_changed_certificate_is_served_without_a_restart() {
    let server = ManagerProcess::start(&[]);
    let first = issue(server.directory.path());
    server.until("/readyz", 200).await;
    let body = review("InterpretReplica", "WorkloadDeployment");
    server.post(&first, "/interpret", &body).await.unwrap();
    let second = issue(server.directory.path());
    timeout(WITHIN, async {
        while server.post(&second, "/interpret", &body).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the new certificate is not served");
    assert!(server.post(&first, "/interpret", &body).await.is_err());
}

#[tokio::test]
async fn a_broken_certificate_is_reported_and_the_former_stays_in_service() {
    let server = ManagerProcess::start(&["--certificate-poll=50ms"]);
    let ca = issue(server.directory.path());
    assert_eq!(server.until("/readyz", 200).await, "ok\n");
    let valid = async |expected: &str| {
        timeout(WITHIN, async {
            let line = format!("compute_federation_certificate_valid {expected}");
            while !get(server.metrics, "/metrics")
                .await
                .is_ok_and(|(_, metrics)| metrics.lines().any(|found| found == line))
            {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("certificate_valid does not become {expected}"));
    };
    valid("1").await;

    write(&server.directory, "tls.crt", "no certificate");
    valid("0").await;
    let told = server.until("/readyz", 200).await;
    let expected = format!(
        "ok\nthe former certificate stays in service: {}/tls.crt: holds no certificate\n",
        server.directory.path().display()
    );
    assert_eq!(told, expected);
    let body = review("InterpretReplica", "WorkloadDeployment");
    let (status, _) = server.post(&ca, "/interpret", &body).await.unwrap();
    assert_eq!(status, 200);

    let renewed = issue(server.directory.path());
    valid("1").await;
    assert_eq!(server.until("/readyz", 200).await, "ok\n");
    let (status, _) = server.post(&renewed, "/interpret", &body).await.unwrap();
    assert_eq!(status, 200);
}

#[tokio::test]
async fn sigterm_stops_the_process_gracefully_and_json_logs_show_it() {
    let server = ManagerProcess::start(&["--log-format=json"]);
    issue(server.directory.path());
    server.until("/readyz", 200).await;
    let pid = Pid::from_raw(server.process.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let output = timeout(WITHIN, server.process.wait_with_output())
        .await
        .expect("the process goes on")
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let messages: Vec<_> = lines
        .iter()
        .filter_map(|line| line["message"].as_str())
        .collect();
    assert!(
        messages.contains(&"started") && messages.last() == Some(&"stopped"),
        "{messages:?}"
    );
    assert!(
        TcpStream::connect(("localhost", server.webhooks))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_process_with_nothing_enabled_warns_and_answers_probes() {
    let health = ports::reserve().unwrap();
    let mut process = command()
        .arg(format!("--health-probe-bind-address=localhost:{health}"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    timeout(WITHIN, async {
        while !get(health, "/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200)
        {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("no probe is answered");
    process.start_kill().unwrap();
    let output = process.wait_with_output().await.unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(
        log.contains("nothing is enabled: set --enable-management-controllers"),
        "{log}"
    );
}
