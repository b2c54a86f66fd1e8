//! Cells in pull mode: Karmada's agent in the cell connects to the hub, and nothing connects to the cell.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};

use super::parts::{manager_ports, our_crds, start_cell, start_etcd, start_in_cell};
use super::{CellConfig, Config, Federation, Managed, RunningCell, StartInputs};
use crate::karmada;
use crate::manager::manifest;
use crate::objects::apply_all;
use crate::plane::{Plane, PlanePorts};
use crate::process::{ChildProcess, Program, StartCommand};
use crate::rights::PlaneUser;
use crate::uplink::{Uplink, UplinkCut};

/// Program of the agent.
const AGENT: &str = "karmada-agent";

/// The agent of a pull cell, and its connections to the hub.
pub struct PullCell {
    command: StartCommand,
    agent: Option<ChildProcess>,
    /// In front of the hub, for the agent and for compute-federation.
    uplink: Uplink,
}

impl PullCell {
    /// Cuts all connections of the cell to the hub, until the returned value is dropped.
    pub fn cut(&self) -> UplinkCut {
        self.uplink.cut()
    }

    /// Starts the agent. Kills it first if it runs.
    ///
    /// # Errors
    ///
    /// When the agent cannot be started.
    pub async fn restart_agent(&mut self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
        self.agent = Some(self.command.start().await?);
        Ok(())
    }

    /// Waits until the agent ends. Returns its exit code.
    ///
    /// # Errors
    ///
    /// When the agent does not run.
    pub async fn agent_ended(&self) -> anyhow::Result<i32> {
        let agent = self.agent.as_ref();
        let agent = agent.with_context(|| format!("{} does not run", self.command.name()))?;
        Ok(agent.ended().await)
    }
}

impl Federation {
    /// Adds a cell in pull mode to the running federation, with compute-federation.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends.
    pub async fn add_pull_cell(
        &mut self,
        config: &Config,
        cell: &CellConfig,
    ) -> anyhow::Result<PullCell> {
        let setup = StartInputs {
            binary: &config.binary,
            directory: &self.directory,
            logs: &self.directory.join("logs"),
            peers: &config.peers,
            pki: &self.pki,
            webhook_certificates: &self.directory.join("webhook-certificates"),
        };
        let (etcd_port, peer_port) = (self.ports.next()?, self.ports.next()?);
        let ports = PlanePorts {
            apiserver: self.ports.next()?,
            etcd: etcd_port,
        };
        let etcd = format!("{}-etcd", cell.name);
        let etcd = start_etcd(&setup, &etcd, etcd_port, peer_port).await?;
        let crds = our_crds()?;
        let plane = etcd
            .while_running(start_cell(&setup, cell, ports, &crds))
            .await?;
        self.others.push(etcd);

        let manager_ports = manager_ports(&mut self.ports)?;
        let planes = [&self.project, &self.hub, &plane];
        let (mut manager, provider) = start_in_cell(&setup, config, planes, manager_ports).await?;
        let uplink = Uplink::start(self.hub.port()).await?;
        let through = |user: &PlaneUser| self.through(&uplink, user);
        manager.kill().await;
        let kubeconfig = through(&PlaneUser::cell(&cell.name))?;
        manager.set_path("federation-kubeconfig", &kubeconfig);
        manager.restart().await?;

        register(&self.hub, &plane, cell).await?;
        let name = format!("{}-agent", cell.name);
        let kubeconfig = through(&PlaneUser::agent(&cell.name))?;
        let agent = ChildProcess::start(Program {
            name: &name,
            path: setup.peers.program(AGENT),
            args: karmada::agent_flags(cell, plane.kubeconfig(), &kubeconfig),
            logs: setup.logs,
            remove: None,
        })
        .await?;
        agent
            .while_running(karmada::joined(&self.hub, &cell.name))
            .await?;
        let running = RunningCell {
            plane,
            manager: Some(Managed::from(manager)),
            provider: Some(provider),
        };
        self.cells.insert(cell.name.clone(), running);
        Ok(PullCell {
            command: agent.again(),
            agent: Some(agent),
            uplink,
        })
    }

    /// Writes a kubeconfig of this user that leads through the uplink to the hub.
    fn through(&self, uplink: &Uplink, user: &PlaneUser) -> anyhow::Result<PathBuf> {
        let name = format!("uplink-{}.kubeconfig", user.name.replace(':', "-"));
        let file = self.directory.join(name);
        fs::write(&file, self.pki.user_kubeconfig(uplink.port(), user)?)
            .with_context(|| file.display().to_string())?;
        Ok(file)
    }
}

/// Applies the objects and the roles of the cell to the hub.
async fn register(hub: &Plane, cell: &Plane, config: &CellConfig) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(cell.client());
    let system = namespaces.get("kube-system").await?;
    let text = manifest("pull-cell/hub.yaml")?
        .replace("CELL-NAME", &config.name)
        .replace("CELL-UID", &system.uid().context("no UID")?)
        .replace("CITY-CODE", &config.city);
    apply_all(&hub.client(), &text).await
}
