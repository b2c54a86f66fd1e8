//! Starts the smaller parts of a federation.

use std::path::PathBuf;

use super::{CellConfig, Config, StartInputs};
use crate::manager::{Manager, ManagerPorts, Role, deploy, manifest};
use crate::objects::{apply, apply_all};
use crate::plane::{Plane, PlanePorts, flag};
use crate::ports::Ports;
use crate::process::{ChildProcess, Program};
use crate::rights::{CELL, HUB, PROJECT, PlaneUser, allow_quota};
use crate::{checkout, karmada, networking, provider, registration};

/// File with the registration of the interpreter in Karmada.
const INTERPRETER: &str = "components/federation/resource-interpreter-webhook.yaml";

pub(crate) fn manager_ports(ports: &mut Ports) -> anyhow::Result<ManagerPorts> {
    Ok(ManagerPorts {
        health: ports.next()?,
        metrics: ports.next()?,
        webhook: ports.next()?,
    })
}

/// Names of the etcd processes and of their data directories. `ETCD` is the shared etcd. `HUB_ETCD` is the hub's own
/// etcd.
pub(crate) const ETCD: &str = "etcd";
pub(crate) const HUB_ETCD: &str = "hub-etcd";

pub(crate) async fn start_etcd(
    setup: &StartInputs<'_>,
    name: &str,
    port: u16,
    peer_port: u16,
) -> anyhow::Result<ChildProcess> {
    let data = setup.directory.join(name);
    let url = format!("http://127.0.0.1:{port}");
    ChildProcess::start(Program {
        name,
        path: setup.peers.program("etcd"),
        args: vec![
            flag("data-dir", &data),
            "--unsafe-no-fsync".into(),
            format!("--listen-client-urls={url}").into(),
            format!("--advertise-client-urls={url}").into(),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}").into(),
            "--log-level=warn".into(),
            "--quota-backend-bytes=8589934592".into(),
        ],
        logs: setup.logs,
        remove: Some(&data),
    })
    .await
}

/// Starts the hub's own etcd, if the configuration asks for one, and sets its port in the hub's ports.
pub(super) async fn start_hub_etcd(
    setup: &StartInputs<'_>,
    config: &Config,
    ports: &mut Ports,
    hub: &mut PlanePorts,
) -> anyhow::Result<Option<ChildProcess>> {
    if !config.hub_etcd {
        return Ok(None);
    }
    hub.etcd = ports.next()?;
    let etcd = start_etcd(setup, HUB_ETCD, hub.etcd, ports.next()?);
    etcd.await.map(Some)
}

/// Returns the files of our CRDs in `deploy/`.
pub(crate) fn our_crds() -> anyhow::Result<Vec<PathBuf>> {
    let files = api::crds::files()?;
    Ok(files.iter().map(|file| deploy().join(&file.path)).collect())
}

/// Returns the CRDs of a hub: our CRDs, with those of hubs alone, and Karmada's.
pub(crate) fn hub_crds(setup: &StartInputs<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let of_hub = api::crds::hub_files()?;
    let of_hub = of_hub.iter().map(|file| deploy().join(&file.path));
    Ok([our_crds()?, of_hub.collect(), setup.peers.karmada_crds()?].concat())
}

/// Starts Karmada's API server, without Karmada.
pub(super) async fn start_hub(setup: &StartInputs<'_>, ports: PlanePorts) -> anyhow::Result<Plane> {
    let flags = karmada::hub_flags(setup);
    let hub = Plane::start(setup, "hub", "hub", ports, &hub_crds(setup)?, &flags, HUB).await?;
    apply_all(&hub.client(), &manifest("base/cell-isolation/policy.yaml")?).await?;
    Ok(hub)
}

/// Returns the CRDs of a project: our CRDs, with that of projects alone, and the foreign CRDs that compute-federation reads.
pub(crate) fn project_crds() -> anyhow::Result<Vec<PathBuf>> {
    let others = ["locationbindings", "networks"]
        .map(|kind| crd_of_others(&format!("networking.datumapis.com_{kind}.yaml")));
    let of_projects = deploy().join(api::crds::project_file()?.path);
    Ok([our_crds()?, vec![of_projects], others.into()].concat())
}

/// Returns the path of a foreign CRD. Foreign CRDs in the harness contain only the needed fields.
pub(crate) fn crd_of_others(name: &str) -> PathBuf {
    checkout::root().join("tests/harness/crds").join(name)
}

/// Starts the project, and offers the cities of all cells to the project.
pub(super) async fn start_project(
    setup: &StartInputs<'_>,
    ports: PlanePorts,
    cells: &[CellConfig],
) -> anyhow::Result<Plane> {
    let crds = project_crds()?;
    let project = Plane::start(setup, "project", "project", ports, &crds, &[], PROJECT).await?;
    for CellConfig { city, .. } in cells {
        networking::offer_city(&project.client(), &city.to_lowercase(), city).await?;
    }
    Ok(project)
}

/// Gives the cells the right to claim quota in the project, if the configuration asks for it. Returns their kubeconfig.
async fn quota_kubeconfig(config: &Config, project: &Plane) -> anyhow::Result<Option<PathBuf>> {
    if !config.quota {
        return Ok(None);
    }
    allow_quota(&project.client()).await?;
    project.kubeconfig_of(&PlaneUser::quota()).map(Some)
}

pub(super) async fn start_cell(
    setup: &StartInputs<'_>,
    cell: &CellConfig,
    ports: PlanePorts,
    crds: &[PathBuf],
) -> anyhow::Result<Plane> {
    let flags = [karmada::member_flag(setup, &cell.name)?];
    Plane::start(setup, "cell", &cell.name, ports, crds, &flags, CELL).await
}

/// Starts compute-federation and an infrastructure provider in a cell. The planes are the project, the hub and the
/// cell.
pub(super) async fn start_in_cell(
    setup: &StartInputs<'_>,
    config: &Config,
    [project, hub, cell]: [&Plane; 3],
    ports: ManagerPorts,
) -> anyhow::Result<(Manager, ChildProcess)> {
    let quota = quota_kubeconfig(config, project).await?;
    let role = Role::Cell {
        cell,
        hub,
        quota: quota.as_deref(),
        networking: config.networking.unwrap_or_default(),
    };
    let manager = Manager::start(setup, role, ports).await?;
    let provider = provider::start(cell.name(), cell.kubeconfig(), setup.logs).await?;
    Ok((manager, provider))
}

/// Registers our interpreter webhook from `deploy/` with Karmada. The address of the webhook is on loopback.
pub(super) async fn register_interpreter(
    hub: &Plane,
    port: u16,
    ca_bundle: Option<&str>,
) -> anyhow::Result<()> {
    let registration = registration::at_port(INTERPRETER, port, ca_bundle)?;
    apply(&hub.client(), &registration).await.map(drop)
}
