//! One API server, with or without a controller manager. The controller manager does garbage collection and deletes
//! namespaces.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use api::rights::{CELLS_GROUP, MANAGER_USER};
use futures::FutureExt;
use http::{Method, Request};
use kube::Client;
use multicluster::connect;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::audit;
use crate::federation::StartInputs;
use crate::objects::apply_crds;
use crate::pki::Pki;
use crate::ports::Ports;
use crate::process::{ChildProcess, Liveness, Program, StartCommand};
use crate::rights::{FRONT_USER, Grant, PlaneUser, WEBHOOK_USER, apply_grants};

/// User agent of the harness.
pub(crate) const USER_AGENT: &str = "compute-federation-harness";
/// Poll interval for states that cannot be watched.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// The kind of a cell's plane.
pub(crate) const CELL: &str = "cell";
/// The kind of a lower hub's plane.
pub(crate) const LOWER_HUB: &str = "lower-hub";

/// The default authorization flag.
pub(crate) const RBAC: &str = "--authorization-mode=RBAC";

/// Returns the audit policy. It logs all requests of compute-federation and of Milo's front, and the writes of all
/// others, without bodies. A watch is logged when it starts, because it may not end before the API server ends.
pub(crate) fn audit_policy() -> String {
    let rules = [
        json!({"level": "Metadata", "users": [MANAGER_USER, WEBHOOK_USER, FRONT_USER]}),
        json!({"level": "Metadata", "userGroups": [CELLS_GROUP]}),
        json!({"level": "None", "verbs": ["get", "list", "watch"]}),
        json!({"level": "Metadata"}),
    ];
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    });
    policy.to_string()
}

/// An API server process and its files.
pub struct Plane {
    kind: &'static str,
    name: String,
    kubeconfig: PathBuf,
    /// The kubeconfigs of users, by user name.
    of_users: Mutex<BTreeMap<String, PathBuf>>,
    audit_log: PathBuf,
    port: u16,
    pki: Pki,
    client: Client,
    apiserver: Apiserver,
    controller_manager: Option<ChildProcess>,
}

/// The API server's process, and its start command.
struct Apiserver {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    logs: PathBuf,
    process: Option<ChildProcess>,
}

impl Apiserver {
    async fn start(&self) -> anyhow::Result<ChildProcess> {
        ChildProcess::start(Program {
            name: &self.name,
            path: self.path.clone(),
            args: self.args.clone(),
            logs: &self.logs,
            remove: None,
        })
        .await
    }
}

impl Plane {
    /// Starts an API server with RBAC, waits until it is ready, and applies the CRDs and the roles. Then starts the
    /// controller manager without waiting for it. The CRDs come first because the garbage collector discovers new kinds
    /// only every 30 s.
    pub(crate) async fn start(
        setup: &StartInputs<'_>,
        kind: &'static str,
        name: &str,
        ports: PlanePorts,
        crds: &[PathBuf],
        more: &[OsString],
        grants: &[Grant],
    ) -> anyhow::Result<Self> {
        let flags = [&[RBAC.into()], more].concat();
        let mut plane = Self::start_bare(setup, kind, name, ports, crds, &flags, grants).await?;
        let controller_manager = ChildProcess::start(Program {
            name: &format!("{name}-controller-manager"),
            path: setup.peers.program("kube-controller-manager"),
            args: controller_manager_args(kind, &plane.kubeconfig),
            logs: setup.logs,
            remove: None,
        })
        .await?;
        plane.controller_manager = Some(controller_manager);
        Ok(plane)
    }

    /// Starts an API server without a controller manager, waits until it is ready, and applies the CRDs and the
    /// roles. `flags` set the authorization mode.
    pub(crate) async fn start_bare(
        setup: &StartInputs<'_>,
        kind: &'static str,
        name: &str,
        ports: PlanePorts,
        crds: &[PathBuf],
        flags: &[OsString],
        grants: &[Grant],
    ) -> anyhow::Result<Self> {
        let directory = setup.directory;
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, setup.pki.kubeconfig(ports.apiserver))?;
        let audit_policy = directory.join(format!("{name}-audit-policy.yaml"));
        fs::write(&audit_policy, self::audit_policy())?;
        let audit_log = setup.logs.join(format!("{name}-audit.log"));
        audit::record_kind(setup.logs, name, kind)?;
        let mut args = apiserver_args(setup, name, ports, &audit_policy, &audit_log);
        args.extend_from_slice(flags);
        let mut apiserver = Apiserver {
            name: format!("{name}-apiserver"),
            path: setup.peers.program("kube-apiserver"),
            args,
            logs: setup.logs.to_owned(),
            process: None,
        };
        let process = apiserver.start().await?;
        let config = connect::kubeconfig(&kubeconfig, None).await?;
        let client = connect::client(config, USER_AGENT)?;
        process
            .while_running(async {
                ready(&client).await?;
                // On the heap: the futures of a whole Milo would overflow the stack of a test.
                let grants = apply_grants(&client, grants).boxed();
                tokio::try_join!(apply_crds(&client, crds).boxed(), grants)
            })
            .await?;
        apiserver.process = Some(process);
        Ok(Self {
            kind,
            name: name.to_owned(),
            kubeconfig,
            of_users: Mutex::default(),
            audit_log,
            port: ports.apiserver,
            pki: setup.pki.clone(),
            client,
            apiserver,
            controller_manager: None,
        })
    }

    /// Returns `root`, `project`, `hub`, `lower-hub` or `cell`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the name of the plane.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a self-contained kubeconfig with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a self-contained kubeconfig with the rights of this user. The first call for a user writes the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn kubeconfig_of(&self, user: &PlaneUser) -> anyhow::Result<PathBuf> {
        // A manager may read the file while a test asks for it, so the file is written only once.
        let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = of_users.get(&user.name) {
            return Ok(file.clone());
        }
        let name = format!("{}-{}.kubeconfig", self.name, user.name.replace(':', "-"));
        let file = self.kubeconfig.with_file_name(name);
        fs::write(&file, self.pki.user_kubeconfig(self.port, user)?)
            .with_context(|| file.display().to_string())?;
        of_users.insert(user.name.clone(), file.clone());
        Ok(file)
    }

    /// Returns the path of the audit log.
    pub fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the port of the API server on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Adds a flag for the next start of the API server.
    pub fn add_apiserver_flag(&mut self, flag: OsString) {
        self.apiserver.args.push(flag);
    }

    /// Kills the API server.
    pub async fn kill_apiserver(&mut self) {
        if let Some(process) = self.apiserver.process.take() {
            process.kill().await;
        }
    }

    /// Kills the controller manager and returns its start command.
    pub(crate) async fn kill_controller_manager(&mut self) -> Option<StartCommand> {
        let process = self.controller_manager.take()?;
        let again = process.again();
        process.kill().await;
        Some(again)
    }

    /// Starts the controller manager again.
    pub(crate) async fn start_controller_manager(
        &mut self,
        again: Option<StartCommand>,
    ) -> anyhow::Result<()> {
        if let Some(again) = again {
            self.controller_manager = Some(again.start().await?);
        }
        Ok(())
    }

    /// Suspends the API server with SIGSTOP. A suspended API server accepts connections but does not answer.
    ///
    /// # Errors
    ///
    /// When the API server does not run.
    pub fn pause_apiserver(&self) -> anyhow::Result<()> {
        self.signal_apiserver(Signal::STOP)
    }

    /// Resumes a suspended API server.
    ///
    /// # Errors
    ///
    /// When the API server does not run.
    pub fn resume_apiserver(&self) -> anyhow::Result<()> {
        self.signal_apiserver(Signal::CONT)
    }

    pub(crate) fn signal_apiserver(&self, signal: Signal) -> anyhow::Result<()> {
        let process = self.apiserver.process.as_ref();
        let name = &self.apiserver.name;
        process
            .with_context(|| format!("{name} does not run"))?
            .signal(signal)
    }

    /// Restarts the API server after it was killed, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When the API server runs already, or the new process exits.
    pub async fn restart_apiserver(&mut self) -> anyhow::Result<()> {
        let name = &self.apiserver.name;
        ensure!(self.apiserver.process.is_none(), "{name} runs already");
        self.apiserver.process = Some(self.start_apiserver().await?);
        Ok(())
    }

    /// Starts a new API server process after the former process has ended. Waits until it is ready.
    pub(crate) async fn start_apiserver(&self) -> anyhow::Result<ChildProcess> {
        let process = self.apiserver.start().await?;
        process.while_running(ready(&self.client)).await?;
        Ok(process)
    }

    /// Returns the state of the API server process, or `None` after it was killed.
    pub(crate) fn life(&self) -> Option<Liveness> {
        let process = self.apiserver.process.as_ref();
        process.map(|process| process.life().clone())
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        self.apiserver
            .process
            .iter()
            .chain(&self.controller_manager)
    }

    pub(crate) fn into_processes(self) -> impl Iterator<Item = ChildProcess> {
        self.apiserver
            .process
            .into_iter()
            .chain(self.controller_manager)
    }
}

/// The ports of a plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanePorts {
    pub(crate) apiserver: u16,
    pub(crate) etcd: u16,
}

impl PlanePorts {
    /// Reserves the port of an API server whose etcd has this port.
    pub(crate) fn take(ports: &mut Ports, etcd: u16) -> anyhow::Result<Self> {
        Ok(Self {
            apiserver: ports.next()?,
            etcd,
        })
    }
}

/// Returns `--name=path`.
pub(crate) fn flag(name: &str, value: impl AsRef<Path>) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value.as_ref());
    flag
}

/// Returns the flags of the controller manager. In a cell it also scales, every second and without delay.
fn controller_manager_args(kind: &str, kubeconfig: &Path) -> Vec<OsString> {
    let mut args = vec![
        flag("kubeconfig", kubeconfig),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--profiling=false".into(),
    ];
    let controllers = "--controllers=namespace,garbagecollector";
    if kind == CELL {
        args.push(format!("{controllers},horizontalpodautoscaling").into());
        args.push("--horizontal-pod-autoscaler-sync-period=1s".into());
        args.push("--horizontal-pod-autoscaler-downscale-stabilization=1s".into());
    } else {
        args.push(controllers.into());
    }
    args
}

fn apiserver_args(
    setup: &StartInputs<'_>,
    name: &str,
    ports: PlanePorts,
    audit_policy: &Path,
    audit_log: &Path,
) -> Vec<OsString> {
    let file = |name: &str| setup.pki.file(name);
    let mut args: Vec<OsString> = [
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        format!("--etcd-prefix=/{name}"),
        format!("--secure-port={}", ports.apiserver),
        "--bind-address=127.0.0.1".to_owned(),
        "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount".to_owned(),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        // The lowest value that API servers use in practice. The default of this version is ten times as high.
        "--http2-max-streams-per-connection=100".to_owned(),
        "--profiling=false".to_owned(),
        "--audit-log-mode=blocking".to_owned(),
    ]
    .map(OsString::from)
    .into();
    args.extend([
        flag("client-ca-file", file("ca.crt")),
        flag("tls-cert-file", file("tls.crt")),
        flag("tls-private-key-file", file("tls.key")),
        flag("service-account-key-file", file("sa.pub")),
        flag("service-account-signing-key-file", file("sa.key")),
        flag("audit-policy-file", audit_policy),
        flag("audit-log-path", audit_log),
    ]);
    args
}

/// Waits until `/readyz` answers. This function has no time limit, because the caller stops waiting when the process
/// ends.
pub(crate) async fn ready(client: &Client) -> anyhow::Result<()> {
    loop {
        let request = Request::builder()
            .method(Method::GET)
            .uri("/readyz")
            .body(Vec::new())
            .context("/readyz")?;
        if client.request_text(request).await.is_ok() {
            return Ok(());
        }
        sleep(POLL).await;
    }
}
