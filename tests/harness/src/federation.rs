//! The whole federation: its processes, the order in which they start, and their shutdown.

mod admission;
mod config;
mod kept;
mod lower_hub;
mod other_hub;
pub(crate) mod parts;
mod proxies;
mod pull_cell;
mod restore;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::{join_all, select_all, try_join_all};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::karmada::{self, KarmadaPorts};
use crate::manager::{self, Manager, Role};
use crate::network_operator::Generation;
use crate::peers::Peers;
use crate::pki::Pki;
use crate::plane::{Plane, PlanePorts};
use crate::ports::Ports;
use crate::process::{ChildProcess, Liveness};
use crate::webhook_certificate::{OF_MANAGEMENT, WebhookCertificate};
use crate::{files, inotify};
pub use config::{CellConfig, Config};
pub(crate) use kept::KEPT_STATE;
use kept::KeptProcesses;
pub use kept::stop_kept;
pub use lower_hub::admit_lower_hub;
use parts::{
    ETCD, manager_ports, our_crds, register_interpreter, start_cell, start_etcd, start_hub,
    start_hub_etcd, start_in_cell, start_project,
};
pub use proxies::{CellProxies, Proxies};
pub use pull_cell::PullCell;

/// Inputs that the start functions of all parts share.
pub(crate) struct StartInputs<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) directory: &'a Path,
    pub(crate) logs: &'a Path,
    pub(crate) peers: &'a Peers,
    pub(crate) pki: &'a Pki,
    /// The directory with the certificate of the webhook server.
    pub(crate) webhook_certificates: &'a Path,
}

/// A running federation. Its processes end when the value is dropped, or when the process that owns the value ends.
pub struct Federation {
    directory: PathBuf,
    logs: PathBuf,
    webhook_certificates: PathBuf,
    pki: Pki,
    project: Plane,
    hub: Plane,
    lower_hubs: BTreeMap<String, RunningLowerHub>,
    cells: BTreeMap<String, RunningCell>,
    management: Option<Managed>,
    webhook_certificate: Mutex<WebhookCertificate>,
    others: Vec<ChildProcess>,
    ready_after: Duration,
    ports: Ports,
}

struct RunningLowerHub {
    plane: Plane,
    manager: Managed,
}

struct RunningCell {
    plane: Plane,
    manager: Option<Managed>,
    provider: Option<ChildProcess>,
}

/// A manager behind a lock, and a channel that contains its process while it runs.
struct Managed {
    manager: Mutex<Manager>,
    life: watch::Receiver<Option<Liveness>>,
}

impl From<Manager> for Managed {
    fn from(manager: Manager) -> Self {
        Self {
            life: manager.life(),
            manager: Mutex::new(manager),
        }
    }
}

impl Federation {
    /// Starts a federation and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When a part does not become ready or ends. The error contains the path of the part's log. All processes are
    /// ended.
    pub async fn start(config: &Config) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        let begin = Instant::now();
        let directory = files::create(&config.target, &config.label)?;
        let logs = directory.join("logs");
        fs::create_dir_all(&logs)?;
        let pki = Pki::create(&directory.join("pki"))?;
        let webhook_certificates = directory.join("webhook-certificates");
        let certificate = WebhookCertificate::create(&webhook_certificates, OF_MANAGEMENT)?;
        let setup = StartInputs {
            binary: &config.binary,
            directory: &directory,
            logs: &logs,
            peers: &config.peers,
            pki: &pki,
            webhook_certificates: &webhook_certificates,
        };
        let started = Self::assemble(config, &setup, certificate, begin).await;
        started.with_context(|| format!("the federation in {} did not start", directory.display()))
    }

    async fn assemble(
        config: &Config,
        setup: &StartInputs<'_>,
        certificate: WebhookCertificate,
        begin: Instant,
    ) -> anyhow::Result<Self> {
        let mut ports = Ports::take()?;
        let etcd_port = ports.next()?;
        let etcd = start_etcd(setup, ETCD, etcd_port, ports.next()?).await?;
        let plane_ports = |ports: &mut Ports| PlanePorts::take(ports, etcd_port);
        let (project_ports, mut hub_ports) = (plane_ports(&mut ports)?, plane_ports(&mut ports)?);
        let hub_etcd = start_hub_etcd(setup, config, &mut ports, &mut hub_ports).await?;
        let karmada_ports = KarmadaPorts::take(&mut ports, hub_ports.etcd)?;
        let management_ports = manager_ports(&mut ports)?;
        let mut cell_ports = Vec::new();
        for cell in &config.cells {
            cell_ports.push((cell, plane_ports(&mut ports)?, manager_ports(&mut ports)?));
        }

        let mut cell_crds = our_crds()?;
        cell_crds.extend(config.network_kinds.into_iter().flat_map(Generation::crds));
        let project = start_project(setup, project_ports, &config.cells);
        let hub = async {
            let hub = start_hub(setup, hub_ports).await?;
            let karmada = karmada::start(setup, &hub, karmada_ports).await?;
            anyhow::Ok((hub, karmada))
        };
        let cells = try_join_all(
            cell_ports
                .iter()
                .map(|(cell, ports, _)| start_cell(setup, cell, *ports, &cell_crds)),
        );
        let (project, (hub, mut others), cells) = etcd
            .while_running(async { tokio::try_join!(project, hub, cells) })
            .await?;
        others.extend([Some(etcd), hub_etcd].into_iter().flatten());

        let management = async {
            if !config.managers {
                return Ok(None);
            }
            let (project, hub) = (&project, &hub);
            let role = Role::Management { project, hub };
            let manager = Manager::start(setup, role, management_ports).await?;
            let ca_bundle = certificate.ca_bundle();
            register_interpreter(hub, manager.webhook_port(), Some(&ca_bundle)).await?;
            anyhow::Ok(Some(manager))
        };
        let members = async {
            others
                .extend(karmada::start_controllers(setup, &hub, config.default_thresholds).await?);
            try_join_all(cells.iter().zip(&config.cells).map(|(cell, config)| async {
                karmada::join(setup, &hub, cell, config).await?;
                karmada::joined(&hub, cell.name()).await
            }))
            .await
        };
        // Karmada loads interpreters only at start, and does not interpret earlier objects again.
        let management = management.await?;
        let runners = cells.iter().zip(&cell_ports);
        let runners = try_join_all(runners.map(|(cell, (of_cell, _, ports))| async {
            if !(config.managers && of_cell.controllers) {
                return Ok((None, None));
            }
            let planes = [&project, &hub, cell];
            let (manager, provider) = start_in_cell(setup, config, planes, *ports).await?;
            Ok((Some(manager), Some(provider)))
        }));
        let (runners, _): (Vec<(_, _)>, _) = tokio::try_join!(runners, members)?;

        let cells = cells
            .into_iter()
            .zip(runners)
            .map(|(plane, (manager, provider))| {
                (
                    plane.name().to_owned(),
                    RunningCell {
                        plane,
                        manager: manager.map(Managed::from),
                        provider,
                    },
                )
            });
        Ok(Self {
            directory: setup.directory.to_owned(),
            logs: setup.logs.to_owned(),
            webhook_certificates: setup.webhook_certificates.to_owned(),
            pki: setup.pki.clone(),
            project,
            hub,
            lower_hubs: BTreeMap::new(),
            cells: cells.collect(),
            management: management.map(Managed::from),
            webhook_certificate: Mutex::new(certificate),
            others,
            ready_after: begin.elapsed(),
            ports,
        })
    }

    /// Returns the inputs for parts that are added to the running federation.
    fn setup<'a>(&'a self, config: &'a Config) -> StartInputs<'a> {
        StartInputs {
            binary: &config.binary,
            directory: &self.directory,
            logs: &self.logs,
            peers: &config.peers,
            pki: &self.pki,
            webhook_certificates: &self.webhook_certificates,
        }
    }

    /// Returns the time from the start until all parts were ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Returns the directory of logs, kubeconfigs and certificates.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the project's API server.
    pub fn project(&self) -> &Plane {
        &self.project
    }

    /// Returns Karmada's API server.
    pub fn hub(&self) -> &Plane {
        &self.hub
    }

    /// Returns the API server of a lower hub. One below another lower hub has a name such as `dfw.mid`.
    ///
    /// # Errors
    ///
    /// When there is no lower hub of this name.
    pub fn lower_hub(&self, name: &str) -> anyhow::Result<&Plane> {
        let found = self.lower_hubs.get(name).map(|it| &it.plane);
        found.with_context(|| format!("there is no lower hub {name}"))
    }

    /// Returns the compute-federation process of a lower hub.
    ///
    /// # Errors
    ///
    /// When there is no lower hub of this name.
    pub fn lower_hub_manager(&self, name: &str) -> anyhow::Result<&Mutex<Manager>> {
        let found = self.lower_hubs.get(name).map(|it| &it.manager.manager);
        found.with_context(|| format!("there is no lower hub {name}"))
    }

    /// Returns a cell's API server. A cell below a lower hub has a name such as `dfw.a1`.
    ///
    /// # Errors
    ///
    /// When there is no cell of this name.
    pub fn cell(&self, name: &str) -> anyhow::Result<&Plane> {
        self.cells
            .get(name)
            .map(|cell| &cell.plane)
            .with_context(|| format!("there is no cell {name}"))
    }

    /// Returns a cell's API server for methods that stop or restart it.
    ///
    /// # Errors
    ///
    /// When there is no cell of this name.
    pub fn cell_mut(&mut self, name: &str) -> anyhow::Result<&mut Plane> {
        self.cells
            .get_mut(name)
            .map(|cell| &mut cell.plane)
            .with_context(|| format!("there is no cell {name}"))
    }

    /// Returns the API server of a cell or of a lower hub, as [`cell_mut`](Self::cell_mut).
    ///
    /// # Errors
    ///
    /// When there is no cell and no lower hub of this name.
    pub fn plane_mut(&mut self, name: &str) -> anyhow::Result<&mut Plane> {
        let lower_hub = self.lower_hubs.get_mut(name).map(|it| &mut it.plane);
        let cell = self.cells.get_mut(name).map(|it| &mut it.plane);
        let found = lower_hub.or(cell);
        found.with_context(|| format!("there is no cell and no lower hub {name}"))
    }

    /// Returns all cells, sorted by name. Those below lower hubs are among them.
    pub fn cells(&self) -> impl Iterator<Item = &Plane> {
        self.cells.values().map(|cell| &cell.plane)
    }

    /// Returns all API servers in this order: project, hub, lower hubs, cells.
    pub fn planes(&self) -> impl Iterator<Item = &Plane> {
        let hubs = [&self.project, &self.hub].into_iter();
        let lower_hubs = self.lower_hubs.values().map(|it| &it.plane);
        hubs.chain(lower_hubs).chain(self.cells())
    }

    /// Returns the compute-federation process of the management plane.
    ///
    /// # Errors
    ///
    /// When the federation runs without managers.
    pub fn management(&self) -> anyhow::Result<&Mutex<Manager>> {
        let managed = self.management.as_ref();
        managed
            .map(|managed| &managed.manager)
            .context("the federation runs without managers")
    }

    /// Returns the certificate of the webhook server in the management plane.
    pub fn webhook_certificate(&self) -> &Mutex<WebhookCertificate> {
        &self.webhook_certificate
    }

    /// Returns the compute-federation process of a cell.
    ///
    /// # Errors
    ///
    /// When there is no such cell, or compute-federation does not run in it.
    pub fn cell_manager(&self, name: &str) -> anyhow::Result<&Mutex<Manager>> {
        let cell = self
            .cells
            .get(name)
            .with_context(|| format!("there is no cell {name}"))?;
        let managed = cell.manager.as_ref();
        managed
            .map(|managed| &managed.manager)
            .with_context(|| format!("{name} runs without a manager"))
    }

    /// Returns the ids of all processes, including tethers. The id of a locked manager is not included.
    pub fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<_> = self
            .processes()
            .flat_map(|process| [process.pid(), process.tether_pid().cast_signed()])
            .collect();
        for manager in self
            .managed()
            .filter_map(|managed| managed.manager.try_lock().ok())
        {
            pids.extend(
                manager
                    .process()
                    .iter()
                    .flat_map(|p| [p.pid(), p.tether_pid().cast_signed()]),
            );
        }
        pids
    }

    /// Waits until a process ends unexpectedly. Returns an error with the end of the log of that process.
    pub async fn death(&self) -> anyhow::Error {
        let processes = self.processes().map(|process| {
            let life = process.life();
            async { life.death(life.ended().await) }.boxed()
        });
        let managers = self
            .managed()
            .map(|managed| manager::death(managed.life.clone()).boxed());
        select_all(processes.chain(managers)).await.0
    }

    /// Returns all processes except the managers.
    fn processes(&self) -> impl Iterator<Item = &ChildProcess> {
        let providers = self
            .cells
            .values()
            .filter_map(|cell| cell.provider.as_ref());
        self.planes()
            .flat_map(Plane::processes)
            .chain(&self.others)
            .chain(providers)
    }

    fn managed(&self) -> impl Iterator<Item = &Managed> {
        self.management
            .iter()
            .chain(self.lower_hubs.values().map(|it| &it.manager))
            .chain(self.cells.values().filter_map(|cell| cell.manager.as_ref()))
    }

    fn into_processes(self) -> (Vec<ChildProcess>, Vec<ChildProcess>) {
        let (mut first, mut others) = (Vec::new(), self.others);
        first.extend(
            self.management
                .and_then(|managed| managed.manager.into_inner().into_process()),
        );
        others.extend(self.project.into_processes());
        others.extend(self.hub.into_processes());
        for lower_hub in self.lower_hubs.into_values() {
            first.extend(lower_hub.manager.manager.into_inner().into_process());
            others.extend(lower_hub.plane.into_processes());
        }
        for cell in self.cells.into_values() {
            first.extend(
                cell.manager
                    .and_then(|managed| managed.manager.into_inner().into_process()),
            );
            others.extend(cell.provider);
            others.extend(cell.plane.into_processes());
        }
        (first, others)
    }

    /// Ends all processes and waits until they have exited. Logs stay on disk.
    pub async fn stop(self) {
        let (managers, others) = self.into_processes();
        join_all(managers.into_iter().map(ChildProcess::terminate)).await;
        join_all(others.into_iter().map(ChildProcess::kill)).await;
    }

    /// Detaches the federation from this process, so that the federation keeps running. [`stop_kept`] ends it. A part
    /// that has already ended is not restarted.
    ///
    /// # Errors
    ///
    /// When the list of processes cannot be written. In this case, all processes are ended.
    pub async fn keep(self) -> anyhow::Result<()> {
        let state = self.directory.join(KEPT_STATE);
        let (managers, others) = self.into_processes();
        let processes: Vec<_> = managers.into_iter().chain(others).collect();
        let tethers = processes.iter().map(ChildProcess::tether_pid).collect();
        fs::write(&state, serde_json::to_string(&KeptProcesses { tethers })?)
            .with_context(|| state.display().to_string())?;
        join_all(processes.into_iter().map(ChildProcess::detach)).await;
        Ok(())
    }
}
