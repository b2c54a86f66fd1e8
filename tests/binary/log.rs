//! Tests of the log: texts from requests, and a log that nobody reads.

use std::process::{Output, Stdio};
use std::time::Duration;

use harness::ports;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::client::{TlsConnection, get, issue};
use crate::refusals::kubeconfig;
use crate::{HEAD, WITHIN, command, write};

/// Longest text from a request in the log, in bytes.
const FIELD_MAX: usize = 256;
/// Longest line with five such texts, in bytes.
const LINE_MAX: usize = 4096;

/// Starts an interpreter. Returns the process, the port of its metrics and a connection to it.
async fn start(directory: &TempDir, args: &[&str]) -> (Child, u16, TlsConnection) {
    let ca = issue(directory.path());
    let [port, metrics] = [ports::reserve().unwrap(), ports::reserve().unwrap()];
    let process = command()
        .arg("interpreter")
        .arg(format!("--cert-dir={}", directory.path().display()))
        .args(["--bind-address=localhost", &format!("--port={port}")])
        .arg(format!("--metrics-bind-address=localhost:{metrics}"))
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let connection = timeout(WITHIN, async {
        loop {
            match TlsConnection::open(port, &ca).await {
                Ok(connection) => return connection,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    (process, metrics, connection.await.expect("not served"))
}

/// Returns a request about an unknown operation, whose texts are `text`.
fn request(text: &str) -> Vec<u8> {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
        "request": {
            "uid": text, "operation": text, "namespace": text, "name": text,
            "kind": {"group": text, "version": "v1alpha", "kind": text}, "object": {},
        },
    })
    .to_string()
    .into_bytes()
}

/// Ends the process and returns its log.
async fn end(process: Child) -> String {
    let pid = Pid::from_raw(process.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = timeout(WITHIN, process.wait_with_output()).await;
    let Output { stderr, .. } = ended.expect("the process goes on").unwrap();
    String::from_utf8(stderr).unwrap()
}

#[tokio::test]
async fn a_request_cannot_forge_or_stretch_a_line_of_the_log() {
    let hostile = format!(
        "x\n2026 ERROR forged\u{1b}[31m\u{9b}31m {}",
        "y".repeat(1 << 20)
    );
    for format in ["json", "text"] {
        let directory = TempDir::new().unwrap();
        let flags = [
            &format!("--log-format={format}"),
            "--log-level=info,webhooks=debug",
            "--shutdown-delay=0s",
        ];
        let (process, _, mut connection) = start(&directory, &flags).await;
        let request = request(&hostile);
        let posted = timeout(WITHIN, connection.post("/interpret", &request));
        posted.await.expect("the request hangs").unwrap();
        let version = json!({"apiVersion": hostile, "kind": hostile}).to_string();
        let (status, answer) = connection
            .post("/interpret", version.as_bytes())
            .await
            .unwrap();
        assert_eq!(status, 400);
        assert!(answer.len() < LINE_MAX, "{} bytes", answer.len());
        drop(connection);
        let log = end(process).await;
        assert!(
            log.contains("not interpreted") && log.contains("refused"),
            "{log}"
        );
        assert!(!log.contains(['\u{1b}', '\u{9b}']), "control characters");
        for line in log.lines() {
            assert!(line.len() <= LINE_MAX, "{format}: {} bytes", line.len());
            assert!(!line.starts_with("2026 ERROR forged"), "{line}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                let texts = line.as_object().unwrap().values();
                let too_long = texts
                    .filter_map(Value::as_str)
                    .find(|text| text.len() > FIELD_MAX);
                assert_eq!(too_long, None);
            }
        }
    }
}

/// A cell that does not enforce quota by mistake must be found.
#[tokio::test]
async fn a_cell_without_credentials_for_quota_says_so_once() {
    for is_enforced in [false, true] {
        let directory = TempDir::new().unwrap();
        let kubeconfig = kubeconfig(&directory);
        let quota = match is_enforced {
            true => format!(", quotaKubeconfigPath: '{kubeconfig}'"),
            false => String::new(),
        };
        let [metrics, health] = [ports::reserve().unwrap(), ports::reserve().unwrap()];
        let config = format!(
            "{HEAD}discovery: {{mode: single, clusterName: dfw1{quota}}}\n\
             metricsServer: {{secureServing: false, bindAddress: 'localhost:{metrics}'}}\n"
        );
        let config = write(&directory, "config.yaml", &config);
        let process = command()
            .arg("--enable-cell-controllers")
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--federation-kubeconfig={kubeconfig}"))
            .arg(format!("--server-config={config}"))
            .arg(format!("--health-probe-bind-address=localhost:{health}"))
            .args(["--log-format=json", "--shutdown-delay=0s"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let gauge = async {
            loop {
                let answer = get(metrics, "/metrics").await;
                let text = answer.map_or_else(|_| String::new(), |(_, text)| text);
                let mut lines = text.lines();
                let gauge = lines.find_map(|line| {
                    line.strip_prefix("compute_quota_enforcement_enabled ")
                        .map(str::to_owned)
                });
                match gauge {
                    Some(gauge) => return gauge,
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let gauge = timeout(WITHIN, gauge).await.expect("no metric");
        assert_eq!(gauge, u8::from(is_enforced).to_string());
        let log = end(process).await;
        let errors = log
            .lines()
            .filter(|line| line.contains("quota is not enforced"));
        let errors: Vec<Value> = errors.map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(errors.len(), usize::from(!is_enforced), "{log}");
        assert!(errors.iter().all(|line| line["level"] == "ERROR"), "{log}");
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_blocks_no_request() {
    let directory = TempDir::new().unwrap();
    let (_process, metrics, mut connection) = start(&directory, &["--log-level=debug"]).await;
    let dropped = async || {
        let (_, metrics) = get(metrics, "/metrics").await.unwrap();
        let mut lines = metrics.lines();
        let count =
            lines.find_map(|line| line.strip_prefix("compute_federation_log_lines_dropped_total "));
        count.expect("no metric").parse::<u64>().unwrap()
    };
    let filled = async {
        while dropped().await == 0 {
            for _ in 0..100 {
                let request = request(&"x".repeat(FIELD_MAX));
                connection.post("/interpret", &request).await.unwrap();
            }
        }
    };
    // A pipe takes 64 KiB. Without a queue, the process would hang as soon as the pipe is full.
    timeout(6 * WITHIN, filled).await.expect("a request hangs");
}
