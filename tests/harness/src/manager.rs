//! Runs the compute-federation binary in one of its roles.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::rights::MANAGER_USER;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::checkout;
use crate::federation::StartInputs;
use crate::plane::{Plane, flag};
use crate::process::{ChildProcess, Liveness, Program};
use crate::rights::PlaneUser;
use crate::wait;

/// Time limit for a manager to become ready.
const READY: Duration = Duration::from_mins(1);

/// The role of a manager, and the API servers that the manager uses.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// The management controllers and the webhook server of one project.
    Management {
        /// The API server of the project.
        project: &'a Plane,
        /// Karmada's API server.
        hub: &'a Plane,
    },
    /// The controllers of one cell.
    Cell {
        /// The API server of the cell.
        cell: &'a Plane,
        /// Karmada's API server.
        hub: &'a Plane,
        /// Kubeconfig of the project, if the cell enforces quota.
        quota: Option<&'a Path>,
        /// `networking.strategy`. The default if it is empty.
        networking: &'a str,
    },
    /// The controller of a lower hub.
    LowerHub {
        /// The name of its Cluster on the upper hub.
        cluster: &'a str,
        /// The API server of the lower hub.
        lower: &'a Plane,
        /// The API server of the upper hub.
        upper: &'a Plane,
    },
    /// All projects of Milo. With a hub, the manager runs the management controllers. Without a hub, it runs the
    /// webhook server.
    Milo {
        /// Name of the process.
        name: &'a str,
        /// Kubeconfig of the API server that holds the Projects.
        discovery: &'a Path,
        /// Kubeconfig template for projects. The manager replaces the path of the URL.
        projects: &'a Path,
        /// Karmada's API server.
        hub: Option<&'a Plane>,
    },
    /// The management controllers of the projects whose kubeconfigs are in a directory.
    Kubeconfigs {
        /// Name of the process.
        name: &'a str,
        /// The directory.
        directory: &'a Path,
        /// Karmada's API server.
        hub: &'a Plane,
    },
}

/// The part of a manager's configuration that depends on its role.
struct RoleInputs {
    name: String,
    webhook_server: Value,
    discovery: Value,
    args: Vec<OsString>,
}

impl RoleInputs {
    fn of(setup: &StartInputs<'_>, role: Role<'_>, ports: ManagerPorts) -> anyhow::Result<Self> {
        let webhook_server = || {
            let tls = json!({"certDir": setup.webhook_certificates});
            json!({"host": "127.0.0.1", "port": ports.webhook, "tls": tls})
        };
        let manager = PlaneUser::manager();
        let on_hub = |hub: &Plane| {
            let kubeconfig = flag("federation-kubeconfig", hub.kubeconfig_of(&manager)?);
            anyhow::Ok(vec![
                kubeconfig,
                "--enable-management-controllers=true".into(),
            ])
        };
        let (name, webhook_server, discovery, args) = match role {
            Role::Management { project, hub } => (
                format!("{}-manager", project.name()),
                webhook_server(),
                json!({}),
                vec![
                    flag("kubeconfig", project.kubeconfig_of(&manager)?),
                    flag("federation-kubeconfig", hub.kubeconfig_of(&manager)?),
                    "--enable-management-controllers=true".into(),
                ],
            ),
            Role::Cell {
                cell, hub, quota, ..
            } => (
                format!("{}-manager", cell.name()),
                json!(null),
                json!({
                    "mode": "single",
                    "clusterName": cell.name(),
                    "quotaKubeconfigPath": quota.unwrap_or_else(|| Path::new("")),
                }),
                vec![
                    flag("kubeconfig", cell.kubeconfig_of(&manager)?),
                    flag(
                        "federation-kubeconfig",
                        hub.kubeconfig_of(&PlaneUser::cell(cell.name()))?,
                    ),
                    "--enable-cell-controllers=true".into(),
                ],
            ),
            Role::LowerHub {
                cluster,
                lower,
                upper,
            } => (
                format!("{}-manager", lower.name()),
                webhook_server(),
                json!({"mode": "single", "clusterName": cluster}),
                vec![
                    flag("kubeconfig", lower.kubeconfig_of(&manager)?),
                    flag(
                        "federation-kubeconfig",
                        upper.kubeconfig_of(&PlaneUser::lower_hub(cluster))?,
                    ),
                    "--enable-lower-hub-controllers=true".into(),
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
                match hub {
                    Some(hub) => on_hub(hub)?,
                    None => Vec::new(),
                },
            ),
            Role::Kubeconfigs {
                name,
                directory,
                hub,
            } => (
                name.to_owned(),
                json!(null),
                json!({"mode": "kubeconfigs", "projectKubeconfigDirectory": directory}),
                on_hub(hub)?,
            ),
        };
        Ok(Self {
            name,
            webhook_server,
            discovery,
            args,
        })
    }
}

/// The ports of a manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManagerPorts {
    pub(crate) health: u16,
    pub(crate) metrics: u16,
    pub(crate) webhook: u16,
}

/// A manager process that can be stopped and started again.
pub struct Manager {
    name: String,
    binary: PathBuf,
    args: Vec<OsString>,
    config_file: PathBuf,
    logs: PathBuf,
    ports: ManagerPorts,
    process: Option<ChildProcess>,
    life: watch::Sender<Option<Liveness>>,
}

impl Manager {
    /// Starts a manager and waits until it is ready.
    pub(crate) async fn start(
        setup: &StartInputs<'_>,
        role: Role<'_>,
        ports: ManagerPorts,
    ) -> anyhow::Result<Self> {
        let mut manager = Self::prepare(setup, role, ports)?;
        manager.restart().await?;
        Ok(manager)
    }

    /// Prepares a manager without starting it.
    pub(crate) fn prepare(
        setup: &StartInputs<'_>,
        role: Role<'_>,
        ports: ManagerPorts,
    ) -> anyhow::Result<Self> {
        let networking = match &role {
            Role::Cell { networking, .. } => *networking,
            Role::Management { .. }
            | Role::LowerHub { .. }
            | Role::Milo { .. }
            | Role::Kubeconfigs { .. } => "",
        };
        let RoleInputs {
            name,
            webhook_server,
            discovery,
            mut args,
        } = RoleInputs::of(setup, role, ports)?;
        let metrics = format!("127.0.0.1:{}", ports.metrics);
        let config = json!({
            "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
            "kind": "WorkloadOperator",
            "metricsServer": {"secureServing": false, "bindAddress": metrics},
            "webhookServer": webhook_server,
            "discovery": discovery,
            "networking": {"strategy": networking},
            "featureFlags": {"enableReferencedDataGate": true},
            "referencedData": {"resolverUsernames": [MANAGER_USER]},
        });
        let config_file = setup.directory.join(format!("{name}.yaml"));
        fs::write(&config_file, config.to_string())?;
        args.extend([
            flag("server-config", &config_file),
            format!("--health-probe-bind-address=127.0.0.1:{}", ports.health).into(),
            "--log-level=info".into(),
            // No load balancer routes to this manager, so the shutdown needs no delay.
            "--shutdown-delay=0s".into(),
        ]);
        Ok(Self {
            name,
            binary: setup.binary.to_owned(),
            args,
            config_file,
            logs: setup.logs.to_owned(),
            ports,
            process: None,
            life: watch::Sender::new(None),
        })
    }

    /// Starts the manager, or restarts it after it has ended. Waits until it is ready.
    ///
    /// # Errors
    ///
    /// When the manager runs already, or does not become ready. The error contains the reason. A manager that does not
    /// become ready is killed.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.launch().await?;
        let ready = self.until_ready().await;
        if ready.is_err() {
            self.kill().await;
        }
        ready
    }

    /// Starts the manager without waiting until it is ready.
    ///
    /// # Errors
    ///
    /// When the manager runs already, or cannot be started.
    pub async fn launch(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "{} runs already", self.name);
        let process = ChildProcess::start(Program {
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

    /// Waits until the manager is ready. From then on, an exit that no test requested counts as a failure.
    ///
    /// # Errors
    ///
    /// When the manager does not run, exits, or does not become ready. The error contains the reason.
    pub async fn until_ready(&self) -> anyhow::Result<()> {
        let process = self.process.as_ref();
        let process = process.with_context(|| format!("{} does not run", self.name))?;
        process.while_running(self.ready()).await?;
        self.life.send_replace(Some(process.life().clone()));
        Ok(())
    }

    /// Kills the manager.
    pub async fn kill(&mut self) {
        self.life.send_replace(None);
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }

    /// Ends the manager with SIGTERM and returns its exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.life.send_replace(None);
        match self.process.take() {
            Some(process) => Some(process.terminate().await),
            None => None,
        }
    }

    /// Waits until the manager exits, and returns the exit code. Sends no signal.
    pub async fn ended(&mut self) -> Option<i32> {
        self.life.send_replace(None);
        let process = self.process.take()?;
        Some(process.ended().await)
    }

    /// Returns the log file. Restarts append to it.
    pub fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Sends a signal to the manager.
    ///
    /// # Errors
    ///
    /// When the manager does not run.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.as_ref().context("the manager does not run")?;
        process.signal(signal)
    }

    /// Adds flags for the next start of the manager.
    pub fn add_flags(&mut self, flags: &[&str]) {
        self.args.extend(flags.iter().map(Into::into));
    }

    /// Sets a flag whose value is a path, for the next start of the manager.
    pub(crate) fn set_path(&mut self, name: &str, path: &Path) {
        let before = format!("--{name}=");
        let is_before = |arg: &OsString| arg.to_string_lossy().starts_with(&before);
        self.args.retain(|arg| !is_before(arg));
        self.args.push(flag(name, path));
    }

    /// Sets `discovery.quotaKubeconfigPath` for the next start of the manager.
    pub(crate) fn set_quota_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        self.change_config(|config| {
            let discovery = config.get_mut("discovery").and_then(Value::as_object_mut);
            let discovery = discovery.context("the config file has no discovery")?;
            discovery.insert("quotaKubeconfigPath".to_owned(), json!(path));
            Ok(())
        })
    }

    /// Sets `interpreterCustomizations` for the next start of the manager.
    ///
    /// # Errors
    ///
    /// When the config file cannot be read or written.
    pub fn set_customizations(&self, directory: Option<&Path>) -> anyhow::Result<()> {
        self.change_config(|config| {
            config["interpreterCustomizations"] = json!({"directory": directory});
            Ok(())
        })
    }

    fn change_config(
        &self,
        change: impl FnOnce(&mut Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&self.config_file)?)?;
        change(&mut config)?;
        Ok(fs::write(&self.config_file, config.to_string())?)
    }

    /// Returns the port of the metrics.
    pub fn metrics_port(&self) -> u16 {
        self.ports.metrics
    }

    /// Returns the port of the webhook server.
    pub fn webhook_port(&self) -> u16 {
        self.ports.webhook
    }

    /// Returns the text of the manager's metrics endpoint.
    ///
    /// # Errors
    ///
    /// When the endpoint does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        get(self.ports.metrics, "/metrics")
            .await
            .map(|(_, body)| body)
    }

    /// Returns the HTTP status and the body of the manager's readiness endpoint.
    ///
    /// # Errors
    ///
    /// When the endpoint does not answer.
    pub async fn readiness(&self) -> anyhow::Result<(u16, String)> {
        get(self.ports.health, "/readyz").await
    }

    /// Returns the HTTP status and the body of the manager's liveness endpoint.
    ///
    /// # Errors
    ///
    /// When the endpoint does not answer.
    pub async fn liveness(&self) -> anyhow::Result<(u16, String)> {
        get(self.ports.health, "/healthz").await
    }

    /// Returns the id of the process, if the manager runs.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(ChildProcess::pid)
    }

    /// Returns a channel with the running process. The value is `None` while a test stops or starts the manager.
    pub(crate) fn life(&self) -> watch::Receiver<Option<Liveness>> {
        self.life.subscribe()
    }

    pub(crate) fn process(&self) -> Option<&ChildProcess> {
        self.process.as_ref()
    }

    pub(crate) fn into_process(self) -> Option<ChildProcess> {
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

/// Waits until a manager exits unexpectedly. Returns an error that describes the exit.
pub(crate) async fn death(mut life: watch::Receiver<Option<Liveness>>) -> anyhow::Error {
    loop {
        let current = life.borrow_and_update().clone();
        let ended = async {
            match &current {
                Some(life) => life.death(life.ended().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A method that stops a manager sets the value to `None` first. The change must therefore be checked before
            // the exit.
            biased;
            Ok(()) = life.changed() => {}
            death = ended => if !life.has_changed().is_ok_and(|changed| changed) {
                return death;
            }
        }
    }
}

/// Sends a plain HTTP request to loopback. Returns the HTTP status and the body.
///
/// # Errors
///
/// When there is no answer.
pub async fn get(port: u16, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // HTTP/1.0 has no chunks, and the connection ends with the answer.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
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

/// Reads a file of the deployment manifests.
pub(crate) fn manifest(name: &str) -> anyhow::Result<String> {
    let file = deploy().join(name);
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// Returns the path of the deployment manifests.
pub(crate) fn deploy() -> PathBuf {
    checkout::root().join("deploy")
}
