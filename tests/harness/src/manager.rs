//! compute-federation itself, in one of its roles.

use std::fs;
use std::path::PathBuf;
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

/// What a manager does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Beside the project, with the webhook server.
    Management,
    /// In a cell.
    Cell,
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
    /// Starts a manager whose own cluster is `own`, and waits until it is ready.
    pub(crate) async fn start(
        setup: &Setup<'_>,
        role: Role,
        own: &Plane,
        hub: &Plane,
        ports: ManagerPorts,
    ) -> anyhow::Result<Self> {
        let name = format!("{}-manager", own.name());
        let metrics = format!("127.0.0.1:{}", ports.metrics);
        let (enable, webhook_server, discovery) = match role {
            Role::Management => {
                let tls = json!({"certDir": setup.webhook_certificates});
                let server = json!({"host": "127.0.0.1", "port": ports.webhook, "tls": tls});
                ("--enable-management-controllers=true", server, json!({}))
            }
            Role::Cell => (
                "--enable-cell-controllers=true",
                json!(null),
                json!({"mode": "single", "clusterName": own.name()}),
            ),
        };
        let config = json!({
            "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
            "kind": "WorkloadOperator",
            "metricsServer": {"secureServing": false, "bindAddress": metrics},
            "webhookServer": webhook_server,
            "discovery": discovery,
        });
        let config_file = setup.directory.join(format!("{name}.yaml"));
        fs::write(&config_file, config.to_string())?;
        let args = vec![
            flag("kubeconfig", own.kubeconfig()),
            flag("federation-kubeconfig", hub.kubeconfig()),
            flag("server-config", config_file),
            enable.into(),
            format!("--health-probe-bind-address=127.0.0.1:{}", ports.health).into(),
            "--log-level=info".into(),
            // No one has to be told to send elsewhere.
            "--shutdown-delay=0s".into(),
        ];
        let binary = setup.binary.to_owned();
        let mut manager = Self {
            name,
            binary,
            args,
            logs: setup.logs.to_owned(),
            ports,
            process: None,
            life: watch::Sender::new(None),
        };
        manager.restart().await?;
        Ok(manager)
    }

    /// Starts the manager again after it has ended, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it does not become ready; the error says what is missing.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "{} runs already", self.name);
        let process = Process::start(Program {
            name: &self.name,
            path: self.binary.clone(),
            args: self.args.clone(),
            logs: &self.logs,
            remove: None,
        })
        .await?;
        process.while_running(self.ready()).await?;
        self.life.send_replace(Some(process.life().clone()));
        self.process = Some(process);
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
