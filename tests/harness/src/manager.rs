//! compute-federation itself, in one of its roles.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::checkout;
use crate::federation::Setup;
use crate::plane::{Plane, flag};
use crate::process::{Life, Process, Program};
use crate::wait;

/// Time for a manager to be ready.
const READY: Duration = Duration::from_secs(20);

/// What a manager does, and for whom.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// Beside the project, with the webhook server.
    Management {
        /// Its own cluster.
        project: &'a Plane,
        /// Karmada's API server.
        hub: &'a Plane,
    },
    /// In a cell.
    Cell {
        /// Its own cluster.
        cell: &'a Plane,
        /// Karmada's API server.
        hub: &'a Plane,
    },
    /// For all projects of Milo: with the management controllers if there is a hub, else with the webhook server.
    Milo {
        /// Names the process.
        name: &'a str,
        /// Kubeconfig of where the Projects are.
        discovery: &'a Path,
        /// Kubeconfig for each project, once the path of its URL is replaced.
        projects: &'a Path,
        /// Karmada's API server.
        hub: Option<&'a Plane>,
    },
}

/// The ports of a manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManagerPorts {
    pub(crate) health: u16,
    pub(crate) metrics: u16,
    pub(crate) webhook: u16,
}

/// A manager, which can be ended and started again.
pub struct Manager {
    name: String,
    binary: PathBuf,
    args: Vec<std::ffi::OsString>,
    logs: PathBuf,
    ports: ManagerPorts,
    process: Option<Process>,
    life: watch::Sender<Option<Life>>,
}

impl Manager {
    /// Starts a manager and waits until it is ready.
    pub(crate) async fn start(
        setup: &Setup<'_>,
        role: Role<'_>,
        ports: ManagerPorts,
    ) -> anyhow::Result<Self> {
        let mut manager = Self::prepare(setup, role, ports)?;
        manager.restart().await?;
        Ok(manager)
    }

    /// A manager that does not run yet.
    pub(crate) fn prepare(
        setup: &Setup<'_>,
        role: Role<'_>,
        ports: ManagerPorts,
    ) -> anyhow::Result<Self> {
        let webhook_server = || {
            let tls = json!({"certDir": setup.webhook_certificates});
            json!({"host": "127.0.0.1", "port": ports.webhook, "tls": tls})
        };
        let (name, webhook_server, discovery, mut args) = match role {
            Role::Management { project, hub } => (
                format!("{}-manager", project.name()),
                webhook_server(),
                json!({}),
                vec![
                    flag("kubeconfig", project.kubeconfig()),
                    flag("federation-kubeconfig", hub.kubeconfig()),
                    "--enable-management-controllers=true".into(),
                ],
            ),
            Role::Cell { cell, hub } => (
                format!("{}-manager", cell.name()),
                json!(null),
                json!({"mode": "single", "clusterName": cell.name()}),
                vec![
                    flag("kubeconfig", cell.kubeconfig()),
                    flag("federation-kubeconfig", hub.kubeconfig()),
                    "--enable-cell-controllers=true".into(),
                ],
            ),
            Role::Milo {
                name,
                discovery,
                projects,
                hub,
            } => (
                name.to_owned(),
                match hub {
                    Some(_) => json!(null),
                    None => webhook_server(),
                },
                json!({
                    "mode": "milo",
                    "discoveryKubeconfigPath": discovery,
                    "projectKubeconfigPath": projects,
                }),
                hub.map_or_else(Vec::new, |hub| {
                    vec![
                        flag("federation-kubeconfig", hub.kubeconfig()),
                        "--enable-management-controllers=true".into(),
                    ]
                }),
            ),
        };
        let metrics = format!("127.0.0.1:{}", ports.metrics);
        let config = json!({
            "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
            "kind": "WorkloadOperator",
            "metricsServer": {"secureServing": false, "bindAddress": metrics},
            "webhookServer": webhook_server,
            "discovery": discovery,
        });
        let config_file = setup.directory.join(format!("{name}.yaml"));
        fs::write(&config_file, config.to_string())?;
        args.extend([
            flag("server-config", config_file),
            format!("--health-probe-bind-address=127.0.0.1:{}", ports.health).into(),
            "--log-level=info".into(),
            // No one has to be told to send elsewhere.
            "--shutdown-delay=0s".into(),
        ]);
        Ok(Self {
            name,
            binary: setup.binary.to_owned(),
            args,
            logs: setup.logs.to_owned(),
            ports,
            process: None,
            life: watch::Sender::new(None),
        })
    }

    /// Starts the manager, for the first time or after it has ended, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it runs already, or does not become ready; the error says what is missing. It does not run then.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.launch().await?;
        let ready = self.until_ready().await;
        if ready.is_err() {
            self.kill().await;
        }
        ready
    }

    /// Starts the manager and does not wait for anything.
    ///
    /// # Errors
    ///
    /// When it runs already, or cannot be started.
    pub async fn launch(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "{} runs already", self.name);
        let process = Process::start(Program {
            name: &self.name,
            path: self.binary.clone(),
            args: self.args.clone(),
            logs: &self.logs,
            remove: None,
        })
        .await?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until the manager is ready. From then on its end is that of a part that should have gone on.
    ///
    /// # Errors
    ///
    /// When it does not run, ends, or does not become ready; the error says what is missing.
    pub async fn until_ready(&self) -> anyhow::Result<()> {
        let process = self.process.as_ref();
        let process = process.with_context(|| format!("{} does not run", self.name))?;
        process.while_running(self.ready()).await?;
        self.life.send_replace(Some(process.life().clone()));
        Ok(())
    }

    /// Ends the manager as a crash would.
    pub async fn kill(&mut self) {
        self.life.send_replace(None);
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Ends the manager by SIGTERM and gives its exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.life.send_replace(None);
        match self.process.take() {
            Some(process) => Some(process.terminate().await),
            None => None,
        }
    }

    /// Waits until the manager ends by itself, and gives its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        self.life.send_replace(None);
        let process = self.process.take()?;
        Some(process.ended().await)
    }

    /// Its log, of all its lives.
    pub fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Sends a signal to the manager, as if from outside.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the manager does not run")?;
        process.signal(signal)
    }

    /// Adds flags for when the manager is started again.
    pub fn add_flags(&mut self, flags: &[&str]) {
        self.args.extend(flags.iter().map(Into::into));
    }

    /// Gives another path to a flag, for when the manager is started again.
    pub(crate) fn set_path(&mut self, name: &str, path: &Path) {
        let before = format!("--{name}=");
        let is_before = |arg: &std::ffi::OsString| arg.to_string_lossy().starts_with(&before);
        self.args.retain(|arg| !is_before(arg));
        self.args.push(flag(name, path));
    }

    /// The port of the webhook server.
    pub fn webhook_port(&self) -> u16 {
        self.ports.webhook
    }

    /// What the manager counts.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        get(self.ports.metrics, "/metrics")
            .await
            .map(|(_, body)| body)
    }

    /// What the manager says of its readiness: status and body.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn readiness(&self) -> anyhow::Result<(u16, String)> {
        get(self.ports.health, "/readyz").await
    }

    /// The process that runs, if none is being ended or started.
    pub(crate) fn life(&self) -> watch::Receiver<Option<Life>> {
        self.life.subscribe()
    }

    pub(crate) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub(crate) fn into_process(self) -> Option<Process> {
        self.process
    }

    async fn ready(&self) -> anyhow::Result<()> {
        wait::eventually("ready", READY, || async {
            let (code, body) = self.readiness().await?;
            ensure!(code == 200, "/readyz: {body}");
            Ok(())
        })
        .await
    }
}

/// Waits until a manager ends that no one asked to, and describes that.
pub(crate) async fn death(mut life: watch::Receiver<Option<Life>>) -> anyhow::Error {
    loop {
        let current = life.borrow_and_update().clone();
        let ended = async {
            match &current {
                Some(life) => life.death(life.ended().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Whoever ends a manager says so before.
            biased;
            Ok(()) = life.changed() => {}
            death = ended => if !life.has_changed().is_ok_and(|changed| changed) {
                return death;
            }
        }
    }
}

/// A plain HTTP request to loopback: status and body.
async fn get(port: u16, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response
        .split_once("\r\n\r\n")
        .context("no HTTP response")?;
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("no HTTP status")?;
    Ok((code, body.to_owned()))
}

/// The path of the deployment's manifests.
pub(crate) fn deploy() -> PathBuf {
    checkout::root().join("deploy")
}
