//! A hub with Karmada, without projects and cells. Tests of Pods use it: their projects and cells are elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::{join_all, select_all};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::federation::StartInputs;
use crate::federation::parts::{HUB_ETCD, hub_crds, start_etcd};
use crate::karmada::{self, CellAccess, KarmadaPorts};
use crate::node::Node;
use crate::objects::{apply, apply_all};
use crate::peers::Peers;
use crate::pki::Pki;
use crate::plane::{Plane, PlanePorts, flag};
use crate::ports::Ports;
use crate::process::ChildProcess;
use crate::{files, inotify};

/// The ServiceAccount in a cell whose token Karmada uses. It has all rights.
const KARMADA_IN_CELL: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: karmada, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: karmada}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: karmada, namespace: kube-system}]
";
/// Lifetime of this token in seconds: longer than any test.
const LIFETIME: i64 = 24 * 60 * 60;

/// The configuration of a hub.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Prefix of the directory's name.
    pub label: String,
    /// Cargo's target directory. The directory of the hub is created below it.
    pub target: PathBuf,
    /// The external programs.
    pub peers: Peers,
}

/// A running hub. Its processes end when the value is dropped, or when the process that owns the value ends. It has the
/// CRDs of a hub, but no roles and no registration of the interpreter.
pub struct Hub {
    directory: PathBuf,
    authentication: PathBuf,
    plane: Plane,
    others: Vec<ChildProcess>,
    ready_after: Duration,
    _ports: Ports,
}

impl Hub {
    /// Starts a hub and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends. The error contains the path of the part's log. All processes are
    /// ended.
    pub async fn start(config: &HubConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let directory = files::create(&config.target, &config.label)?;
        let started = Self::start_in(config, &directory).await;
        started.with_context(|| format!("the hub in {} did not start", directory.display()))
    }

    async fn start_in(config: &HubConfig, directory: &Path) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let logs = directory.join("logs");
        fs::create_dir_all(&logs)?;
        let pki = Pki::create(&directory.join("pki"))?;
        let setup = StartInputs {
            // No process of a hub is compute-federation's.
            binary: Path::new(""),
            directory,
            logs: &logs,
            peers: &config.peers,
            pki: &pki,
            webhook_certificates: Path::new(""),
        };
        let authentication = directory.join("authentication.yaml");
        write_authentication(&authentication, &[])?;
        let mut ports = Ports::take()?;
        let etcd_port = ports.next()?;
        let etcd = start_etcd(&setup, HUB_ETCD, etcd_port, ports.next()?).await?;
        let plane_ports = PlanePorts::take(&mut ports, etcd_port)?;
        let karmada_ports = KarmadaPorts::take(&mut ports, etcd_port)?;
        let (plane, mut others) = etcd
            .while_running(async {
                let crds = hub_crds(&setup)?;
                let mut flags = karmada::hub_flags(&setup);
                flags.push(flag("authentication-config", &authentication));
                let plane =
                    Plane::start(&setup, "hub", "hub", plane_ports, &crds, &flags, &[]).await?;
                let mut karmada = karmada::start(&setup, &plane, karmada_ports).await?;
                karmada.extend(karmada::start_controllers(&setup, &plane, false).await?);
                anyhow::Ok((plane, karmada))
            })
            .await?;
        others.push(etcd);
        Ok(Self {
            directory: directory.to_owned(),
            authentication,
            plane,
            others,
            ready_after: begin.elapsed(),
            _ports: ports,
        })
    }

    /// Returns the time from the start until all parts were ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Returns the directory of logs, kubeconfigs and certificates.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns Karmada's API server.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Lets the API server accept tokens of these issuers: the list `jwt` of an AuthenticationConfiguration. The API
    /// server reads the file again when it changes.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn trust_issuers(&self, jwt: &[Value]) -> anyhow::Result<()> {
        write_authentication(&self.authentication, jwt)
    }

    /// Registers the cluster of a node as a member of Karmada, without labels. The name of the cell is the name of the
    /// node.
    ///
    /// # Errors
    ///
    /// When an API server refuses a request.
    pub async fn register(&self, cell: &Node) -> anyhow::Result<()> {
        apply_all(&cell.client(), KARMADA_IN_CELL).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(cell.client(), "kube-system");
        let request: TokenRequest = serde_json::from_value(
            json!({"spec": {"audiences": [], "expirationSeconds": LIFETIME}}),
        )?;
        let answer = accounts
            .create_token_request("karmada", &PostParams::default(), &request)
            .await?;
        let token = answer.status.and_then(|status| status.token);
        let access = CellAccess {
            url: &cell.url(),
            token: &token.context("no token")?,
            ca_bundle: &STANDARD.encode(cell.authority()?),
        };
        karmada::register(&self.plane, cell.name(), &json!({}), &access).await
    }

    /// Waits until Karmada can place our kinds in a cell.
    ///
    /// # Errors
    ///
    /// When the time is over. The error contains the status of the cell.
    pub async fn until_joined(&self, cell: &str) -> anyhow::Result<()> {
        karmada::joined(&self.plane, cell).await
    }

    /// Creates or updates an object of the hub.
    ///
    /// # Errors
    ///
    /// When the API server refuses the object.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        apply(&self.plane.client(), object).await.map(drop)
    }

    /// Waits until a process ends unexpectedly. Returns an error with the end of the log of that process.
    pub async fn death(&self) -> anyhow::Error {
        let processes = self.plane.processes().chain(&self.others);
        let ends = processes.map(|process| {
            let life = process.life();
            async { life.death(life.ended().await) }.boxed()
        });
        select_all(ends).await.0
    }

    /// Ends all processes and waits until they have exited. Logs stay on disk.
    pub async fn stop(self) {
        let processes = self.plane.into_processes().chain(self.others);
        join_all(processes.map(ChildProcess::kill)).await;
    }
}

fn write_authentication(file: &Path, jwt: &[Value]) -> anyhow::Result<()> {
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": jwt,
    });
    // The API server may read the file at any time, so it must never be half written.
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, configuration.to_string())
        .and_then(|()| fs::rename(&unfinished, file))
        .with_context(|| file.display().to_string())
}
