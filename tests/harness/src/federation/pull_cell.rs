//! Cells in pull mode: Karmada's agent in the cell connects to the hub, and nothing connects to the cell.

use std::fs;
use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};

use super::parts::{manager_ports, our_crds, start_cell, start_etcd, start_in_cell};
use super::{CellConfig, Config, Federation, Managed, RunningCell, StartInputs};
use crate::karmada;
use crate::manager::deploy;
use crate::objects::apply_all;
use crate::plane::{Plane, PlanePorts};
use crate::process::{ChildProcess, Program, StartCommand};
use crate::proxy::{Direction, FaultRule, Injected, LinkCut, Proxy, ProxyFault};
use crate::rights::PlaneUser;
use crate::status_error::StatusError;

/// Program of the agent.
const AGENT: &str = "karmada-agent";

/// The connections of a pull cell to the hub.
pub struct PullCell {
    name: String,
    command: StartCommand,
    agent: Option<ChildProcess>,
    /// In front of the hub, for the agent and for compute-federation.
    links: [Proxy; 2],
}

impl PullCell {
    /// Cuts all connections of the cell to the hub, until the returned values are dropped.
    pub fn cut(&self) -> [LinkCut; 2] {
        self.links.each_ref().map(|link| link.cut(Direction::Both))
    }

    /// Answers every request of the agent with 503, as a gateway without its hub does, until the returned value is
    /// dropped.
    pub fn refuse_agent(&self) -> Injected {
        let [link, _] = &self.links;
        let unavailable = ProxyFault::Answer(StatusError::unavailable());
        link.inject(FaultRule::new(unavailable, |_| true))
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
        let agent = agent.with_context(|| format!("the agent of {} does not run", self.name))?;
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
        let directory = self.directory.clone();
        let setup = StartInputs {
            binary: &config.binary,
            directory: &directory,
            logs: &directory.join("logs"),
            peers: &config.peers,
            pki: &self.pki.clone(),
            webhook_certificates: &directory.join("webhook-certificates"),
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
        let manager_link = self.link(&cell.name, &PlaneUser::cell(&cell.name)).await?;
        manager.kill().await;
        manager.set_path("federation-kubeconfig", manager_link.kubeconfig());
        manager.restart().await?;

        register(&self.hub, &plane, cell).await?;
        let name = format!("{}-agent", cell.name);
        let agent_link = self.link(&name, &PlaneUser::agent(&cell.name)).await?;
        let agent = ChildProcess::start(Program {
            name: &name,
            path: setup.peers.program(AGENT),
            args: karmada::agent_flags(cell, plane.kubeconfig(), agent_link.kubeconfig()),
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
            name: cell.name.clone(),
            command: agent.again(),
            agent: Some(agent),
            links: [agent_link, manager_link],
        })
    }

    /// Starts a proxy in front of the hub, for this user.
    async fn link(&self, name: &str, user: &PlaneUser) -> anyhow::Result<Proxy> {
        let upstream = self.hub.kubeconfig_of(user)?;
        let name = format!("{name}-uplink");
        Proxy::start(
            &self.pki,
            &name,
            &upstream,
            &self.directory,
            &Arc::default(),
        )
        .await
    }
}

/// Applies the objects and the roles of the cell to the hub.
async fn register(hub: &Plane, cell: &Plane, config: &CellConfig) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(cell.client());
    let system = namespaces.get("kube-system").await?;
    let file = deploy().join("pull-cell/hub.yaml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let text = text
        .replace("CELL-NAME", &config.name)
        .replace("CELL-UID", &system.uid().context("no UID")?)
        .replace("CITY-CODE", &config.city);
    apply_all(&hub.client(), &text).await
}
