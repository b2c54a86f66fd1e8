//! The measured servers, each in its own process, and the client that keeps them busy.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use harness::ports;
use harness::process::{ChildProcess, Program, tail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::bodies::Body;
use super::workloads::USER;
use super::{BenchSetup, Service};

/// Time limit until a server listens.
const START: Duration = Duration::from_secs(20);
/// Size of a body that is sent over few connections only, in bytes.
const LARGE_BODY: u64 = 32 << 10;
/// Number of requesters. compute-federation answers at most 32 requests of one requester at a time.
const USERS: usize = 16;

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerKind {
    /// The shipped binary of compute-federation.
    Ours,
    /// The shipped binary, with the customizations of [`BenchSetup::customizations`].
    Scripts,
    /// The binary of a former commit.
    Former,
    /// The Go webhook.
    Go,
    /// The server with a constant answer. Its time is the lower bound for any server.
    Floor,
}

impl ServerKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Scripts => "scripts",
            Self::Former => "former",
            Self::Go => "Go",
            Self::Floor => "floor",
        }
    }
}

/// A running server. If the machine has several CPUs, the server runs alone on the last CPU. Clients run on the others.
pub(crate) struct MeasuredServer {
    pub(crate) port: u16,
    process: ChildProcess,
}

/// The result of [`MeasuredServer::load`].
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Load {
    pub(crate) requests: f64,
    pub(crate) seconds: f64,
    /// CPU time of the server in seconds.
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
}

/// The result of [`MeasuredServer::at_rate`], in nanoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Rate {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl MeasuredServer {
    /// Starts a server and waits until it listens. The floor server answers with the content of the file `answer`.
    pub(crate) async fn start(
        bench: &BenchSetup,
        kind: ServerKind,
        answer: &Path,
    ) -> anyhow::Result<Self> {
        let port = ports::reserve()?;
        let certificates = bench.certificates.as_path();
        let (path, args) = match kind {
            ServerKind::Ours => (bench.binary.clone(), ours(bench, port)?),
            ServerKind::Scripts => {
                let mut args = ours(bench, port)?;
                let directory = bench.customizations();
                args.push(format!("--customizations={}", directory.display()).into());
                (bench.binary.clone(), args)
            }
            ServerKind::Former => {
                let former = bench.former.clone().context("there is no --former")?;
                (former, ours(bench, port)?)
            }
            ServerKind::Go => go(bench, port),
            ServerKind::Floor => (
                bench.programs.join("floor"),
                vec![
                    format!("--port={port}").into(),
                    "--cert-dir".into(),
                    certificates.into(),
                    "--answer".into(),
                    answer.into(),
                ],
            ),
        };
        let process = listening(bench, kind.as_str(), on_cpus(&cpus().0, path, args), port).await?;
        // In this second, the server loads its certificates and becomes idle.
        sleep(Duration::from_secs(1)).await;
        Ok(Self { port, process })
    }

    /// Ends the server.
    pub(crate) async fn stop(self) {
        self.process.terminate().await;
    }

    /// Sends one request and writes the answer to the file `answer`.
    pub(crate) async fn ask(
        &self,
        bench: &BenchSetup,
        body: &Path,
        answer: &Path,
    ) -> anyhow::Result<()> {
        let mut args = self.client(bench, body);
        args.extend(["--answer".into(), answer.into()]);
        output(bench.programs.join("load"), args).await.map(drop)
    }

    /// Keeps this many connections busy with one body.
    pub(crate) async fn load(
        &self,
        bench: &BenchSetup,
        body: &Body,
        connections: u16,
    ) -> anyhow::Result<Load> {
        let mut args = self.client(bench, &body.file);
        args.push(format!("--connections={connections}").into());
        line(bench.programs.join("load"), args).await
    }

    /// Sends this many requests per second.
    pub(crate) async fn at_rate(
        &self,
        bench: &BenchSetup,
        body: &Body,
        rate: f64,
        seconds: f64,
    ) -> anyhow::Result<Rate> {
        let mut args = self.client(bench, &body.file);
        args.push(format!("--rate={rate}").into());
        // With this number of connections, a request of 100 ms delays no other request. The number is not higher,
        // because compute-federation closes a connection whose first request does not arrive within 5 s.
        let connections = (rate / 10.0).clamp(32.0, bench.service.connections().into());
        args.push(format!("--connections={connections:.0}").into());
        args.push(format!("--seconds={seconds}").into());
        line(bench.programs.join("load"), args).await
    }

    fn client(&self, bench: &BenchSetup, body: &Path) -> Vec<OsString> {
        vec![
            format!("--user={USER}").into(),
            format!("--users={USERS}").into(),
            format!("--port={}", self.port).into(),
            format!("--pid={}", self.process.pid()).into(),
            "--ca".into(),
            bench.ca().into(),
            format!("--path={}", bench.service.path()).into(),
            "--body".into(),
            body.into(),
        ]
    }

    /// Returns the resident memory in MiB: the current value and the maximum so far.
    pub(crate) fn memory(&self) -> anyhow::Result<(f64, f64)> {
        memory(self.process.pid())
    }
}

/// Keeps two servers busy with one body, in turns, and returns what the program `turns` prints.
pub(crate) async fn compare<T: DeserializeOwned>(
    bench: &BenchSetup,
    body: &Body,
    [one, other]: [&MeasuredServer; 2],
    blocks: usize,
) -> anyhow::Result<T> {
    // Both servers have a limit on the memory of large requests.
    let connections = match fs::metadata(&body.file)?.len() {
        LARGE_BODY.. => 8,
        _ => bench.service.connections(),
    };
    let mut args = one.client(bench, &body.file);
    args.extend([
        format!("--other-port={}", other.port).into(),
        format!("--other-pid={}", other.process.pid()).into(),
        format!("--connections={connections}").into(),
        format!("--blocks={blocks}").into(),
    ]);
    line(bench.programs.join("turns"), args).await
}

/// Returns the resident memory of a process in MiB: the current value and the maximum so far.
pub(crate) fn memory(pid: i32) -> anyhow::Result<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> anyhow::Result<f64> {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib = kib.with_context(|| format!("/proc/{pid}/status has no field {name}"))?;
        Ok(kib.parse::<f64>()? / 1024.0)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// Returns the arguments of compute-federation: the interpreter alone, or a manager with a webhook server and no
/// controllers.
fn ours(bench: &BenchSetup, port: u16) -> anyhow::Result<Vec<OsString>> {
    let certificates = bench.certificates.display();
    Ok(match &bench.service {
        Service::Interpreter => vec![
            "interpreter".into(),
            format!("--port={port}").into(),
            format!("--cert-dir={certificates}").into(),
        ],
        Service::Admission { kubeconfig } => {
            let config = bench.directory.join("manager.yaml");
            let text = json!({
                "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
                "kind": "WorkloadOperator",
                "discovery": {"mode": "single"},
                "webhookServer": {
                    "host": "127.0.0.1",
                    "port": port,
                    "tls": {"certDir": bench.certificates},
                },
            });
            fs::write(&config, text.to_string())?;
            vec![
                format!("--server-config={}", config.display()).into(),
                format!("--kubeconfig={}", kubeconfig.display()).into(),
                "--health-probe-bind-address=0".into(),
                // Enough for the largest body on each connection.
                "--max-bytes-in-flight=1073741824".into(),
            ]
        }
    })
}

/// Returns the command of the Go webhook that implements the same service.
fn go(bench: &BenchSetup, port: u16) -> (PathBuf, Vec<OsString>) {
    let mut args: Vec<OsString> = vec![
        format!("--port={port}").into(),
        "--cert-dir".into(),
        bench.certificates.clone().into(),
    ];
    match &bench.service {
        Service::Interpreter => (bench.rivals.peer(), args),
        Service::Admission { kubeconfig } => {
            args.extend(["--project-kubeconfig".into(), kubeconfig.into()]);
            (bench.rivals.admission(), args)
        }
    }
}

/// Starts a program that the servers call. The program runs on the CPUs of the clients.
pub(crate) async fn start_beside(
    bench: &BenchSetup,
    name: &str,
    args: Vec<OsString>,
    port: u16,
) -> anyhow::Result<ChildProcess> {
    let program = on_cpus(&cpus().1, bench.programs.join(name), args);
    listening(bench, name, program, port).await
}

/// Starts a program and waits until it listens.
async fn listening(
    bench: &BenchSetup,
    name: &str,
    (path, args): (PathBuf, Vec<OsString>),
    port: u16,
) -> anyhow::Result<ChildProcess> {
    let logs = bench.directory.join("logs");
    fs::create_dir_all(&logs)?;
    let program = Program {
        name,
        path,
        args,
        logs: &logs,
        remove: None,
    };
    let process = ChildProcess::start(program).await?;
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        if begin.elapsed() > START {
            bail!("{name} does not listen:\n{}", tail(process.log()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(process)
}

/// Returns the CPUs of the server and the CPUs of its clients, in the syntax of `taskset`.
pub(crate) fn cpus() -> (String, String) {
    match available_parallelism().map_or(1, usize::from) {
        1 => ("0".to_owned(), "0".to_owned()),
        count => (format!("{}", count - 1), format!("0-{}", count - 2)),
    }
}

pub(crate) fn on_cpus(cpus: &str, path: PathBuf, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let mut all = vec!["--cpu-list".into(), cpus.into(), path.into()];
    all.extend(args);
    ("taskset".into(), all)
}

/// Runs a client and returns its standard output.
pub(crate) async fn output(path: PathBuf, args: Vec<OsString>) -> anyhow::Result<Vec<u8>> {
    let (path, args) = on_cpus(&cpus().1, path, args);
    let output = Command::new(&path)
        .args(&args)
        .kill_on_drop(true)
        .output()
        .await
        .context("taskset, of util-linux, is needed")?;
    ensure!(
        output.status.success(),
        "{args:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// Runs a client that prints one JSON object per line, and returns the parsed objects.
pub(crate) async fn lines<T: DeserializeOwned>(
    path: PathBuf,
    args: Vec<OsString>,
) -> anyhow::Result<Vec<T>> {
    let output = output(path, args).await?;
    let lines = serde_json::Deserializer::from_slice(&output).into_iter();
    Ok(lines.collect::<Result<_, _>>()?)
}

async fn line<T: DeserializeOwned>(path: PathBuf, args: Vec<OsString>) -> anyhow::Result<T> {
    let lines = lines(path, args).await?;
    lines
        .into_iter()
        .next()
        .context("the client printed no line")
}
