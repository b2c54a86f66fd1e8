//! A lower hub: a further Karmada, which is a Cluster of the hub or of another lower hub, and has cells of its own.

use api::identity::CLUSTER_SEPARATOR;
use api::labels::{CITY_CODE, LOWER_HUB};
use api::lower_hub::lease_of;
use futures::future::try_join_all;
use serde_json::json;

use super::parts::{
    hub_crds, manager_ports, our_crds, register_interpreter, start_cell, start_etcd, start_in_cell,
};
use super::{CellConfig, Config, Federation, Managed, RunningCell, RunningLowerHub, StartInputs};
use crate::karmada::{self, KarmadaPorts};
use crate::manager::{Manager, ManagerPorts, Role, manifest};
use crate::manifests;
use crate::objects::{apply, apply_all};
use crate::plane::{self, Plane, PlanePorts};
use crate::ports::Ports;
use crate::process::ChildProcess;
use crate::rights::{self, PlaneUser, until_allowed};

/// The file below `deploy` that the hub needs for the process of a lower hub.
const UPPER_HUB: &str = "lower-hub/upper-hub.yaml";
/// Kustomizations of `deploy`, for the upper hub and for the lower hub.
const UPPER: &str = "lower-hub/upper";
const LOWER: &str = "lower-hub/lower";
/// The namespace of both hubs, below `deploy`.
const NAMESPACE: &str = "base/hub-namespace";

/// A cell below a lower hub.
struct CellBelow {
    /// Name of its Cluster on the lower hub.
    cluster: String,
    config: CellConfig,
    ports: PlanePorts,
    manager_ports: ManagerPorts,
}

/// The ports of a lower hub.
#[derive(Clone, Copy)]
struct LowerHubPorts {
    etcd: u16,
    etcd_peer: u16,
    hub: PlanePorts,
    karmada: KarmadaPorts,
    manager: ManagerPorts,
}

impl LowerHubPorts {
    fn take(ports: &mut Ports) -> anyhow::Result<Self> {
        let (etcd, etcd_peer) = (ports.next()?, ports.next()?);
        Ok(Self {
            etcd,
            etcd_peer,
            hub: PlanePorts::take(ports, etcd)?,
            karmada: KarmadaPorts::take(ports, etcd)?,
            manager: manager_ports(ports)?,
        })
    }
}

/// Creates the LowerHub of this name with its Lease, and gives [`PlaneUser::lower_hub`] its rights.
///
/// # Errors
///
/// When the API server refuses the objects, or does not use the rights in time.
pub async fn admit_lower_hub(upper: &Plane, name: &str) -> anyhow::Result<()> {
    let (client, user) = (upper.client(), PlaneUser::lower_hub(name));
    apply_deployed(upper, NAMESPACE).await?;
    let text = manifest(UPPER_HUB)?.replace("CLUSTER-NAME", name);
    apply_all(&client, &text).await?;
    let status = json!({
        "group": api::GROUP, "resource": "lowerhubs", "subresource": "status", "name": name, "verb": "patch",
    });
    let lease = json!({
        "group": "coordination.k8s.io", "resource": "leases", "namespace": api::rights::NAMESPACE,
        "name": lease_of(name), "verb": "patch",
    });
    until_allowed(&client, &user, &status).await?;
    until_allowed(&client, &user, &lease).await
}

/// Applies a kustomization of `deploy`.
async fn apply_deployed(plane: &Plane, path: &str) -> anyhow::Result<()> {
    for object in manifests::deployed(path).await? {
        apply(&plane.client(), &object).await?;
    }
    Ok(())
}

impl Federation {
    /// Adds a lower hub with this city to the running federation. The lower hub `dfw.mid` is the Cluster `mid` of the lower
    /// hub `dfw`. Each of its cells runs compute-federation, whose hub is that of the federation. The cell `a1` below the
    /// lower hub `dfw` has the name `dfw.a1`.
    ///
    /// # Errors
    ///
    /// When its upper hub does not exist, or a part does not become ready or ends.
    pub async fn add_lower_hub(
        &mut self,
        config: &Config,
        name: &str,
        city: &str,
        cells: &[&str],
    ) -> anyhow::Result<()> {
        self.start_lower_hub(config, name, city, cells).await?;
        let (upper, cluster) = self.upper_of(name)?;
        let labels = match upper.kind() {
            plane::LOWER_HUB => json!({LOWER_HUB: "true"}),
            _ => json!({CITY_CODE: city, LOWER_HUB: "true"}),
        };
        let hub = self.lower_hub(name)?;
        karmada::join_as(&self.setup(config), upper, hub, cluster, &labels).await?;
        karmada::joined(upper, cluster).await
    }

    /// Starts all parts of a lower hub. It does not join its upper hub.
    pub(super) async fn start_lower_hub(
        &mut self,
        config: &Config,
        name: &str,
        city: &str,
        cells: &[&str],
    ) -> anyhow::Result<()> {
        let ports = LowerHubPorts::take(&mut self.ports)?;
        let cells = cells.iter().map(|cluster| {
            anyhow::Ok(CellBelow {
                cluster: (*cluster).to_owned(),
                config: CellConfig::new(&format!("{name}{CLUSTER_SEPARATOR}{cluster}"), city),
                ports: PlanePorts::take(&mut self.ports, ports.etcd)?,
                manager_ports: manager_ports(&mut self.ports)?,
            })
        });
        let cells = cells.collect::<anyhow::Result<Vec<_>>>()?;
        let setup = self.setup(config);
        let (upper, cluster) = self.upper_of(name)?;

        let etcd_name = format!("{name}-etcd");
        let etcd = start_etcd(&setup, &etcd_name, ports.etcd, ports.etcd_peer).await?;
        let crds = our_crds()?;
        let planes = cells
            .iter()
            .map(|cell| start_cell(&setup, &cell.config, cell.ports, &crds));
        let started = async {
            tokio::try_join!(
                self.start_karmada(&setup, config, name, ports),
                try_join_all(planes)
            )
        };
        let ((hub, karmada), planes) = etcd.while_running(started).await?;

        for (plane, path) in [(&hub, NAMESPACE), (&hub, LOWER), (upper, UPPER)] {
            apply_deployed(plane, path).await?;
        }
        try_join_all(cells.iter().zip(&planes).map(|(cell, plane)| async {
            karmada::join_as(&setup, &hub, plane, &cell.cluster, &json!({})).await?;
            karmada::joined(&hub, &cell.cluster).await
        }))
        .await?;
        let runners = cells.iter().zip(&planes).map(|(cell, plane)| {
            let planes = [&self.project, &self.hub, plane];
            start_in_cell(&setup, config, planes, cell.manager_ports)
        });
        admit_lower_hub(upper, cluster).await?;
        let role = Role::LowerHub {
            cluster,
            lower: &hub,
            upper,
        };
        let manager = Manager::start(&setup, role, ports.manager);
        let (runners, manager) = tokio::try_join!(try_join_all(runners), manager)?;
        self.others.push(etcd);
        self.others.extend(karmada);
        let running = RunningLowerHub {
            plane: hub,
            manager: Managed::from(manager),
        };
        self.lower_hubs.insert(name.to_owned(), running);
        for (plane, (manager, provider)) in planes.into_iter().zip(runners) {
            let running = RunningCell {
                manager: Some(Managed::from(manager)),
                provider: Some(provider),
                plane,
            };
            self.cells.insert(running.plane.name().to_owned(), running);
        }
        Ok(())
    }

    /// Returns the upper hub of a lower hub, and the name of its Cluster there.
    pub(super) fn upper_of<'n>(&self, name: &'n str) -> anyhow::Result<(&Plane, &'n str)> {
        match name.rsplit_once(CLUSTER_SEPARATOR) {
            Some((upper, cluster)) => Ok((self.lower_hub(upper)?, cluster)),
            None => Ok((&self.hub, name)),
        }
    }

    /// Starts the API server of a lower hub and its Karmada. The interpreter is that of the process of the lower hub.
    async fn start_karmada(
        &self,
        setup: &StartInputs<'_>,
        config: &Config,
        name: &str,
        ports: LowerHubPorts,
    ) -> anyhow::Result<(Plane, Vec<ChildProcess>)> {
        let mut flags = karmada::hub_flags(setup);
        flags.push(karmada::member_flag(setup, name)?);
        let (kind, crds) = (plane::LOWER_HUB, hub_crds(setup)?);
        let hub = Plane::start(
            setup,
            kind,
            name,
            ports.hub,
            &crds,
            &flags,
            rights::LOWER_HUB,
        )
        .await?;
        let mut processes = karmada::start(setup, &hub, ports.karmada).await?;
        // Karmada loads interpreters only at start. The process of the lower hub adds its authority.
        register_interpreter(&hub, ports.manager.webhook, None).await?;
        let controllers = karmada::start_controllers(setup, &hub, config.default_thresholds);
        processes.extend(controllers.await?);
        Ok((hub, processes))
    }
}
