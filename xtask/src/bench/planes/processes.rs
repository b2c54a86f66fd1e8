//! The processes of the benchmark: the simulated planes, and the programs that watch these planes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api::DEFAULT_NAMESPACE;
use harness::ports;
use harness::process::{ChildProcess, Program, tail};
use http::Request;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::bench::servers::{cpus, on_cpus};

/// Time limit for the simulated planes to start.
const START: Duration = Duration::from_secs(20);

/// The build results, and the directory of this run.
pub(super) struct Built {
    pub(super) binary: PathBuf,
    /// Directory of the programs of the crate `benches`.
    pub(super) programs: PathBuf,
    pub(super) informers: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) certificates: PathBuf,
}

impl Built {
    async fn start(
        &self,
        name: &str,
        (path, args): (PathBuf, Vec<OsString>),
    ) -> anyhow::Result<ChildProcess> {
        let logs = self.directory.join("logs");
        fs::create_dir_all(&logs)?;
        // Removes the log of an earlier run.
        let _ = fs::remove_file(logs.join(format!("{name}.log")));
        ChildProcess::start(Program {
            name,
            path,
            args,
            logs: &logs,
            remove: None,
        })
        .await
    }
}

/// The process of the simulated planes.
pub(super) struct SimulatedPlanes {
    process: ChildProcess,
    client: Client,
    port: u16,
    root: PathBuf,
    hub: PathBuf,
    cell: PathBuf,
}

impl SimulatedPlanes {
    pub(super) async fn start(built: &Built, projects: usize) -> anyhow::Result<Self> {
        let port = ports::reserve()?;
        let args = vec![
            format!("--port={port}").into(),
            "--cert-dir".into(),
            built.certificates.clone().into(),
            format!("--projects={projects}").into(),
        ];
        let program = on_cpus(&cpus().1, built.programs.join("planes"), args);
        let process = built.start("planes", program).await?;
        let root = kubeconfig(built, port, "root", "")?;
        let config = Kubeconfig::read_from(&root)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let planes = Self {
            client: Client::try_from(config)?,
            hub: kubeconfig(built, port, "hub", "/hub")?,
            cell: kubeconfig(built, port, "cell", "/cell")?,
            process,
            port,
            root,
        };
        let begin = Instant::now();
        while let Err(error) = planes.ask::<Value>("state", json!({})).await {
            if begin.elapsed() > START {
                bail!("planes: {error:#}\n{}", tail(planes.process.log()));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(planes)
    }

    /// Sends a command to the control endpoint and returns its result.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        body: Value,
    ) -> anyhow::Result<T> {
        let request = Request::post(format!("/control/{what}")).body(body.to_string().into())?;
        let answer = self.client.request(request).await;
        answer.with_context(|| what.to_owned())
    }

    /// Reads an object from the API server of a project, as a controller does.
    pub(super) async fn read_namespace(&self, project: &str) -> anyhow::Result<Value> {
        let path = format!(
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/{project}/control-plane/api/v1/namespaces/{DEFAULT_NAMESPACE}"
        );
        let request = Request::get(&path).body(Vec::new())?;
        self.client.request(request).await.context(path)
    }

    /// Returns the number of objects and requests so far.
    pub(super) async fn state(&self) -> anyhow::Result<SimulationState> {
        self.ask("state", json!({})).await
    }

    /// Returns the time in seconds to list all objects without further processing.
    pub(super) async fn list(&self, built: &Built, projects: usize) -> anyhow::Result<f64> {
        let args = vec![
            format!("--port={}", self.port).into(),
            "--ca".into(),
            built.certificates.join("tls.crt").into(),
            format!("--projects={projects}").into(),
        ];
        let program = built.programs.join("lists");
        let (path, args) = on_cpus(&cpus().0, program, args);
        let output = tokio::process::Command::new(path)
            .args(args)
            .output()
            .await?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    pub(super) async fn stop(self) {
        self.process.kill().await;
    }
}

/// State of the simulated planes.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(super) struct SimulationState {
    pub(super) copies: usize,
    pub(super) bindings: usize,
    /// Number of Instances of the projects.
    pub(super) projections: usize,
    pub(super) writes: u64,
    pub(super) watches: u64,
    /// Number of Instances of the cell whose gates are open.
    #[serde(rename = "openInstances")]
    pub(super) open_instances: usize,
}

/// A process that watches the planes. It runs alone on the last CPU.
pub(super) struct Watcher {
    process: ChildProcess,
    metrics: u16,
}

impl Watcher {
    /// Starts the management controllers without waiting for them.
    pub(super) async fn ours(built: &Built, planes: &SimulatedPlanes) -> anyhow::Result<Self> {
        let discovery = json!({
            "mode": "milo",
            "discoveryKubeconfigPath": planes.root,
            "projectKubeconfigPath": planes.root,
        });
        let args = vec!["--enable-management-controllers=true".into()];
        Self::manager(built, planes, "management", discovery, args).await
    }

    /// Starts compute-federation in this role.
    async fn manager(
        built: &Built,
        planes: &SimulatedPlanes,
        role: &str,
        discovery: Value,
        mut args: Vec<OsString>,
    ) -> anyhow::Result<Self> {
        let metrics = ports::reserve()?;
        let config = json!({
            "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
            "kind": "WorkloadOperator",
            "metricsServer": {"secureServing": false, "bindAddress": format!("127.0.0.1:{metrics}")},
            "discovery": discovery,
        });
        let file = built.directory.join(format!("{role}.yaml"));
        fs::write(&file, config.to_string())?;
        args.extend([
            format!("--server-config={}", file.display()).into(),
            format!("--federation-kubeconfig={}", planes.hub.display()).into(),
            "--health-probe-bind-address=0".into(),
            "--shutdown-delay=0s".into(),
        ]);
        let program = on_cpus(&cpus().0, built.binary.clone(), args);
        let process = built.start(role, program).await?;
        Ok(Self { process, metrics })
    }

    /// Starts the cell controllers without waiting for them.
    pub(super) async fn cell(built: &Built, planes: &SimulatedPlanes) -> anyhow::Result<Self> {
        let discovery = json!({
            "mode": "milo",
            "clusterName": "dfw1",
            "discoveryKubeconfigPath": planes.root,
            "projectKubeconfigPath": planes.root,
            "quotaKubeconfigPath": planes.root,
        });
        let args = vec![
            format!("--kubeconfig={}", planes.cell.display()).into(),
            "--enable-cell-controllers=true".into(),
        ];
        Self::manager(built, planes, "cell", discovery, args).await
    }

    /// Starts the Go informers without waiting for them.
    pub(super) async fn go(built: &Built, planes: &SimulatedPlanes) -> anyhow::Result<Self> {
        let args = vec!["--discovery-kubeconfig".into(), planes.root.clone().into()];
        let program = on_cpus(&cpus().0, built.informers.clone(), args);
        let process = built.start("informers", program).await?;
        Ok(Self {
            process,
            metrics: 0,
        })
    }

    /// Waits until the log of the process contains this text.
    pub(super) async fn until_logged(&self, text: &str, within: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let log = fs::read_to_string(self.process.log()).unwrap_or_default();
            if log.contains(text) {
                return Ok(());
            }
            ensure!(
                begin.elapsed() < within,
                "the log does not contain {text:?}:\n{}",
                tail(self.process.log())
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns the resident memory in MiB: the current value and the maximum so far.
    pub(super) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        crate::bench::servers::memory(self.process.pid())
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns the used CPU time in seconds.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        cpu(self.process.pid())
    }

    /// Returns the sum of a metric over all series whose labels contain this text.
    pub(super) async fn metric(&self, name: &str, labels: &str) -> anyhow::Result<f64> {
        let metrics = get(self.metrics, "/metrics").await?;
        let lines = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(labels)
        });
        let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(values.sum())
    }

    pub(super) async fn stop(self) {
        self.process.terminate().await;
    }
}

/// Returns the CPU time in seconds that a process has used.
pub(super) fn cpu(pid: i32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("no such process")?;
    // The name of the program is in parentheses. The user time and the system time are the 12th and the 13th field
    // after the name.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has no ')'")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    // Linux reports 100 ticks per second on all architectures.
    Ok(ticks / 100.0)
}

fn kubeconfig(built: &Built, port: u16, name: &str, path: &str) -> anyhow::Result<PathBuf> {
    let ca: &Path = &built.certificates.join("tls.crt");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "certificate-authority": ca,
            "server": format!("https://127.0.0.1:{port}{path}"),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        "users": [{"name": name, "user": {"token": name}}],
    });
    let file = built.directory.join(format!("{name}.kubeconfig"));
    fs::write(&file, config.to_string())?;
    Ok(file)
}

/// Sends a plain HTTP request to loopback and returns the response body.
async fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (_, body) = response
        .split_once("\r\n\r\n")
        .context("no HTTP response")?;
    Ok(body.to_owned())
}
