//! Starts the controllers of a cell. Registers the watches and passes each change to the triggers of the controllers.

use std::fmt::Debug;
use std::sync::Arc;

use api::{CellName, Instance, ProjectName, WorkloadDeployment};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, Resource};
use multicluster::cache::{Change, ListLimiter, Reflector};
use multicluster::queue::Workers;
use multicluster::{Metrics, Queue, Tasks};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::autoscaler::AutoscalerController;
use crate::cell::CellCaches;
pub use crate::cell::networks::Networking;
use crate::cell::networks::{NetworkReflectors, Optional};
use crate::cell_companions::CellCompanions;
use crate::data_gate::DataGateController;
use crate::deployment::{AbsentInstances, DeploymentController};
use crate::gate::{self, Gate};
use crate::instance::ReadinessController;
use crate::instance_writeback::InstanceWriteback;
use crate::lifecycle::Lifecycle;
use crate::network::NetworkController;
use crate::objects::Namespace;
use crate::outdated_copies::OutdatedCopies;
pub use crate::quota::ConnectLedger;
use crate::quota::sweeper::QuotaSweeper;
use crate::quota::sweeper::record::LeftClaims;
use crate::quota::{Handovers, Ledgers, QuotaController, QuotaWatches, ReplacementQuota, is_stray};
use crate::runtime::Clock;
use crate::runtime::keys::{ClaimKey, LedgerKey, ObjectKey};
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::triggers::{CellSource, wake};
use crate::runtime::wiring::{Controller, Synced, Wiring};
use crate::runtime::write::Writer;
use crate::{
    autoscaler, data_gate, deployment, instance, instance_writeback, network, outdated_copies,
    quota,
};

/// The dependencies of the controllers of a cell.
pub struct Config {
    /// The name of the cell. Every copy on the hub contains this name.
    pub name: CellName,
    /// The names that the cell had before. It takes over the claims of quota that it made with them.
    pub former_names: Vec<CellName>,
    /// The cell's API server.
    pub client: Client,
    /// The hub.
    pub hub: Client,
    /// Makes the clients of the API servers that have the quota of projects. `None` if quota is not enforced.
    pub quota: Option<ConnectLedger>,
    /// How networks are made.
    pub networking: Networking,
    /// Whether new Instances wait for the ConfigMaps and Secrets of their template.
    pub awaits_data: bool,
    /// The metrics that count writes and reconciliations.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// The source of the current time.
    pub clock: Clock,
}

/// The work queue of each controller.
#[derive(Clone)]
struct CellQueues {
    deployment: Queue<ObjectKey>,
    autoscaler: Queue<ObjectKey>,
    instance: Queue<ObjectKey>,
    writeback: Queue<ObjectKey>,
    outdated: Queue<ObjectKey>,
    quota: Queue<ClaimKey>,
    sweeper: Queue<LedgerKey>,
    network: Queue<ObjectKey>,
    data_gate: Queue<ObjectKey>,
}

/// The workers of each queue.
struct CellWorkers {
    deployment: Workers<ObjectKey>,
    autoscaler: Workers<ObjectKey>,
    instance: Workers<ObjectKey>,
    writeback: Workers<ObjectKey>,
    outdated: Workers<ObjectKey>,
    quota: Workers<ClaimKey>,
    sweeper: Workers<LedgerKey>,
    network: Workers<ObjectKey>,
    data_gate: Workers<ObjectKey>,
}

impl CellQueues {
    fn new(metrics: &Metrics) -> (Self, CellWorkers) {
        let (deployment, deployment_workers) = Queue::new(DeploymentController::NAME, metrics);
        let (autoscaler, autoscaler_workers) = Queue::new(AutoscalerController::NAME, metrics);
        let (instance, instance_workers) = Queue::new(ReadinessController::NAME, metrics);
        let (writeback, writeback_workers) = Queue::new(InstanceWriteback::NAME, metrics);
        let (outdated, outdated_workers) = Queue::new(OutdatedCopies::NAME, metrics);
        let (quota, quota_workers) = Queue::new(QuotaController::NAME, metrics);
        let (sweeper, sweeper_workers) = Queue::new(QuotaSweeper::NAME, metrics);
        let (network, network_workers) = Queue::new(NetworkController::NAME, metrics);
        let (data_gate, data_gate_workers) = Queue::new(DataGateController::NAME, metrics);
        let queues = Self {
            deployment,
            autoscaler,
            instance,
            writeback,
            outdated,
            quota,
            sweeper,
            network,
            data_gate,
        };
        let workers = CellWorkers {
            deployment: deployment_workers,
            autoscaler: autoscaler_workers,
            instance: instance_workers,
            writeback: writeback_workers,
            outdated: outdated_workers,
            quota: quota_workers,
            sweeper: sweeper_workers,
            network: network_workers,
            data_gate: data_gate_workers,
        };
        (queues, workers)
    }

    /// Passes a change to the triggers of each controller.
    fn wake(&self, source: CellSource, change: Change<'_>, cell: &CellCaches) {
        let on_cell = deployment::triggers::ON_CELL;
        wake(&self.deployment, on_cell, source, change, &());
        let on_cell = autoscaler::triggers::ON_CELL;
        wake(&self.autoscaler, on_cell, source, change, &());
        let on_cell = instance::triggers::ON_CELL;
        wake(&self.instance, on_cell, source, change, &());
        let on_cell = instance_writeback::triggers::ON_CELL;
        wake(&self.writeback, on_cell, source, change, &());
        let on_cell = outdated_copies::triggers::ON_CELL;
        wake(&self.outdated, on_cell, source, change, &());
        self.wake_sweeper(source, change);
        let cell = cell as &dyn CellLookups;
        let on_cell = quota::triggers::ON_CELL;
        wake(&self.quota, on_cell, source, change, cell);
        let on_cell = network::triggers::ON_CELL;
        wake(&self.network, on_cell, source, change, cell);
        let on_cell = data_gate::triggers::ON_CELL;
        wake(&self.data_gate, on_cell, source, change, cell);
    }
}

impl CellQueues {
    /// Passes a change to the triggers of the sweeper.
    fn wake_sweeper(&self, source: CellSource, change: Change<'_>) {
        let on_cell = quota::sweeper::triggers::ON_CELL;
        wake(&self.sweeper, on_cell, source, change, &());
    }
}

/// Returns the gates of new Instances, in their order.
fn gates(networking: Networking, enforces_quota: bool, awaits_data: bool) -> Vec<Gate> {
    let makes_networks = networking != Networking::Disabled;
    let gates = [
        (gate::NETWORK, makes_networks),
        (gate::QUOTA, enforces_quota),
        (gate::REFERENCED_DATA, awaits_data),
    ];
    let set = gates.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(gate, _)| gate).collect()
}

/// Passes each change of a kind to the triggers of its source.
fn for_each_change<K>(
    reflector: &mut Reflector<K>,
    source: CellSource,
    queues: &CellQueues,
    cell: &Arc<CellCaches>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let (queues, cell) = (queues.clone(), Arc::clone(cell));
    reflector.on_change(move |change| queues.wake(source, change, &cell));
}

fn deployment_controller(
    cell: &Arc<CellCaches>,
    queues: &CellQueues,
    gates: Vec<Gate>,
    quota: ReplacementQuota,
    lifecycle: Lifecycle,
    metrics: &Metrics,
) -> DeploymentController {
    DeploymentController {
        cell: Arc::clone(cell),
        lifecycle,
        writer: Writer::new(DeploymentController::NAME, metrics),
        gates,
        quota,
        companions: CellCompanions::default(),
        absent: AbsentInstances::new({
            let (cell, queues) = (Arc::clone(cell), queues.clone());
            move |instance| {
                let change = Change {
                    former: None,
                    current: Some(instance),
                };
                queues.wake(CellSource::AbsentInstances, change, &cell);
            }
        }),
    }
}

/// Returns what the watches of quota in projects need.
fn quota_watches(
    cell: &Arc<CellCaches>,
    queues: &CellQueues,
    tasks: &Tasks,
    metrics: &Metrics,
) -> QuotaWatches {
    let wake = |source| -> Arc<dyn Fn(Change<'_>) + Send + Sync> {
        let (cell, queues) = (Arc::clone(cell), queues.clone());
        Arc::new(move |change| queues.wake(source, change, &cell))
    };
    QuotaWatches {
        cell: cell.name.clone(),
        tasks: tasks.clone(),
        metrics: metrics.clone(),
        lists: ListLimiter::default(),
        on_claim: {
            let (cell, queues) = (Arc::clone(cell), queues.clone());
            Arc::new(move |project: &ProjectName, change: Change<'_>| {
                // No key of an Instance leads to the project of such a claim.
                if change.current.is_some_and(|claim| is_stray(&cell, claim)) {
                    queues.sweeper.add(LedgerKey(project.clone()));
                }
                queues.wake(CellSource::Claims, change, &cell);
            })
        },
        on_bucket: wake(CellSource::Buckets),
    }
}

fn quota_controllers(
    cell: &Arc<CellCaches>,
    ledgers: Option<Arc<Ledgers>>,
    queue: Queue<LedgerKey>,
    metrics: &Metrics,
) -> (QuotaController, QuotaSweeper) {
    let sweep = move |project: &ProjectName| queue.add(LedgerKey(project.clone()));
    let left = Arc::new(LeftClaims::new(Arc::clone(cell), sweep));
    let handovers = Arc::new(Handovers::new(Arc::clone(cell)));
    let sweeper = QuotaSweeper::new(
        Arc::clone(cell),
        ledgers.clone(),
        Arc::clone(&left),
        Arc::clone(&handovers),
        metrics,
    );
    let quota = QuotaController::new(Arc::clone(cell), ledgers, left, handovers, metrics);
    (quota, sweeper)
}

/// Returns a function that wakes the controllers for each WorkloadDeployment and Instance of the cell, and for each
/// project in which claims may be left.
fn wake_all(cell: &Arc<CellCaches>, queues: &CellQueues) -> impl FnOnce() + Send + 'static {
    let (cell, queues) = (Arc::clone(cell), queues.clone());
    move || {
        cell.deployments
            .replay(|change| queues.wake(CellSource::Deployments, change, &cell));
        cell.instances
            .replay(|change| queues.wake(CellSource::Instances, change, &cell));
        cell.namespaces
            .replay(|change| queues.wake_sweeper(CellSource::Namespaces, change));
    }
}

/// Starts the caches and the controllers of a cell.
pub fn start(tasks: &Tasks, config: Config) -> Synced {
    let Config {
        name,
        former_names,
        client,
        hub,
        quota,
        networking,
        awaits_data,
        metrics,
        may_write,
        clock,
    } = config;
    let (queues, workers) = CellQueues::new(&metrics);
    let mut deployments = Reflector::<WorkloadDeployment>::new("cell", &metrics);
    let mut instances = Reflector::<Instance>::new("cell", &metrics);
    let mut autoscalers = Reflector::<HorizontalPodAutoscaler>::new("cell", &metrics);
    let mut namespaces = Reflector::<Namespace>::new("cell", &metrics);
    let mut networks = NetworkReflectors::new(&metrics);
    let cell = Arc::new(CellCaches {
        name,
        former_names,
        client: client.clone(),
        hub,
        deployments: deployments.cache(),
        instances: instances.cache(),
        autoscalers: autoscalers.cache(),
        namespaces: namespaces.cache(),
        namespaces_of: CellCaches::by_project(&namespaces),
        networks: networks.caches(networking),
    });
    for_each_change(&mut deployments, CellSource::Deployments, &queues, &cell);
    for_each_change(&mut instances, CellSource::Instances, &queues, &cell);
    for_each_change(&mut autoscalers, CellSource::Autoscalers, &queues, &cell);
    for_each_change(&mut namespaces, CellSource::Namespaces, &queues, &cell);
    networks.on_change({
        let (queues, cell) = (queues.clone(), Arc::clone(&cell));
        move |source, change| queues.wake(source, change, &cell)
    });

    let mut wiring = Wiring::new(tasks, clock);
    wiring.watch(
        "WorkloadDeployments of the cell",
        deployments,
        client.clone(),
    );
    wiring.watch("Instances of the cell", instances, client.clone());
    wiring.watch_if_served(
        "HorizontalPodAutoscalers of the cell",
        "no deployment is scaled automatically",
        autoscalers,
        client.clone(),
    );
    let gates = gates(networking, quota.is_some(), awaits_data);
    if quota.is_some() {
        wiring.watch("Namespaces of the cell", namespaces, client.clone());
    }
    networks.begin(
        networking,
        &mut Optional {
            wiring: &mut wiring,
            client: client.clone(),
        },
    );
    let ready = wiring.ready_to_write(may_write, &metrics, wake_all(&cell, &queues));
    let watches = quota_watches(&cell, &queues, tasks, &metrics);
    let ledgers = quota.map(|connect| Arc::new(Ledgers::new(connect, Some(watches))));
    let replacement = ReplacementQuota::new(Arc::clone(&cell), ledgers.clone());
    let lifecycle = Lifecycle::start(&cell, tasks, &metrics);
    let deployments = deployment_controller(
        &cell,
        &queues,
        gates,
        replacement,
        lifecycle.clone(),
        &metrics,
    );
    wiring.run(workers.deployment, &ready, deployments);
    let autoscaler = AutoscalerController {
        cell: Arc::clone(&cell),
        writer: Writer::new(AutoscalerController::NAME, &metrics),
    };
    wiring.run(workers.autoscaler, &ready, autoscaler);
    let readiness = ReadinessController {
        cell: Arc::clone(&cell),
        writer: Writer::new(ReadinessController::NAME, &metrics),
        lifecycle,
    };
    wiring.run(workers.instance, &ready, readiness);
    let (quota, sweeper) = quota_controllers(&cell, ledgers, queues.sweeper.clone(), &metrics);
    wiring.run(workers.quota, &ready, quota);
    wiring.run(workers.sweeper, &ready, sweeper);
    let network = NetworkController::new(Arc::clone(&cell), &metrics);
    wiring.run(workers.network, &ready, network);
    let data_gate = DataGateController::new(Arc::clone(&cell), awaits_data, &metrics);
    wiring.run(workers.data_gate, &ready, data_gate);
    let outdated = OutdatedCopies::new(Arc::clone(&cell), &metrics);
    wiring.run(workers.outdated, &ready, outdated);
    let writeback = InstanceWriteback::new(cell, &metrics);
    wiring.run(workers.writeback, &ready, writeback);
    wiring.synced()
}
