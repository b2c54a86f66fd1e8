//! Starts the controllers of a cell. Registers the watches and passes each change to the triggers of the controllers.

use std::fmt::Debug;
use std::sync::Arc;

use api::{CellName, Instance, WorkloadDeployment};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, Resource};
use multicluster::cache::{Change, ListLimiter, Reflector};
use multicluster::queue::Workers;
use multicluster::{Metrics, Queue, Tasks};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::autoscaler::AutoscalerController;
use crate::cell::CellCaches;
use crate::deployment::DeploymentController;
use crate::instance::ReadinessController;
use crate::instance_writeback::InstanceWriteback;
use crate::objects::Namespace;
pub use crate::quota::ConnectLedger;
use crate::quota::{QuotaController, QuotaWatches};
use crate::runtime::Clock;
use crate::runtime::events::Events;
use crate::runtime::keys::{ClaimKey, ObjectKey};
use crate::runtime::triggers::lookups::CellLookups;
use crate::runtime::triggers::{CellSource, wake};
use crate::runtime::wiring::{Controller, Synced, Wiring};
use crate::runtime::write::Writer;
use crate::{autoscaler, deployment, instance, instance_writeback, quota};

/// The dependencies of the controllers of a cell.
pub struct Config {
    /// The name of the cell. Every copy on the hub contains this name.
    pub name: CellName,
    /// The cell's API server.
    pub client: Client,
    /// The hub.
    pub hub: Client,
    /// Makes the clients of the API servers that have the quota of projects. `None` if quota is not enforced.
    pub quota: Option<ConnectLedger>,
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
    quota: Queue<ClaimKey>,
}

/// The workers of each queue.
struct CellWorkers {
    deployment: Workers<ObjectKey>,
    autoscaler: Workers<ObjectKey>,
    instance: Workers<ObjectKey>,
    writeback: Workers<ObjectKey>,
    quota: Workers<ClaimKey>,
}

impl CellQueues {
    fn new(metrics: &Metrics) -> (Self, CellWorkers) {
        let (deployment, deployment_workers) = Queue::new(DeploymentController::NAME, metrics);
        let (autoscaler, autoscaler_workers) = Queue::new(AutoscalerController::NAME, metrics);
        let (instance, instance_workers) = Queue::new(ReadinessController::NAME, metrics);
        let (writeback, writeback_workers) = Queue::new(InstanceWriteback::NAME, metrics);
        let (quota, quota_workers) = Queue::new(QuotaController::NAME, metrics);
        let queues = Self {
            deployment,
            autoscaler,
            instance,
            writeback,
            quota,
        };
        let workers = CellWorkers {
            deployment: deployment_workers,
            autoscaler: autoscaler_workers,
            instance: instance_workers,
            writeback: writeback_workers,
            quota: quota_workers,
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
        let (on_cell, cell) = (quota::triggers::ON_CELL, cell as &dyn CellLookups);
        wake(&self.quota, on_cell, source, change, cell);
    }
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

/// Starts the caches and the controllers of a cell.
pub fn start(tasks: &Tasks, config: Config) -> Synced {
    let Config {
        name,
        client,
        hub,
        quota,
        metrics,
        may_write,
        clock,
    } = config;
    let (queues, workers) = CellQueues::new(&metrics);
    let mut deployments = Reflector::<WorkloadDeployment>::new("cell", &metrics);
    let mut instances = Reflector::<Instance>::new("cell", &metrics);
    let mut autoscalers = Reflector::<HorizontalPodAutoscaler>::new("cell", &metrics);
    let mut namespaces = Reflector::<Namespace>::new("cell", &metrics);
    let cell = Arc::new(CellCaches {
        name,
        client: client.clone(),
        hub,
        deployments: deployments.cache(),
        instances: instances.cache(),
        autoscalers: autoscalers.cache(),
        namespaces: namespaces.cache(),
        namespaces_of: CellCaches::by_project(&namespaces),
    });
    for_each_change(&mut deployments, CellSource::Deployments, &queues, &cell);
    for_each_change(&mut instances, CellSource::Instances, &queues, &cell);
    for_each_change(&mut autoscalers, CellSource::Autoscalers, &queues, &cell);
    for_each_change(&mut namespaces, CellSource::Namespaces, &queues, &cell);

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
    let enforces_quota = quota.is_some();
    if enforces_quota {
        wiring.watch("Namespaces of the cell", namespaces, client.clone());
    }
    let ready = wiring.ready_to_write(may_write, &metrics, {
        let (cell, queues) = (Arc::clone(&cell), queues.clone());
        move || {
            cell.deployments
                .replay(|change| queues.wake(CellSource::Deployments, change, &cell));
            cell.instances
                .replay(|change| queues.wake(CellSource::Instances, change, &cell));
        }
    });
    let deployment_controller = DeploymentController {
        cell: Arc::clone(&cell),
        writer: Writer::new(DeploymentController::NAME, &metrics),
        enforces_quota,
        after_last_instance: Box::new({
            let (cell, queues) = (Arc::clone(&cell), queues.clone());
            move |instance| {
                let change = Change {
                    former: None,
                    current: Some(instance),
                };
                queues.wake(CellSource::AfterLastInstance, change, &cell);
            }
        }),
    };
    wiring.run(workers.deployment, &ready, deployment_controller);
    let autoscaler = AutoscalerController {
        cell: Arc::clone(&cell),
        writer: Writer::new(AutoscalerController::NAME, &metrics),
    };
    wiring.run(workers.autoscaler, &ready, autoscaler);
    let readiness = ReadinessController {
        cell: Arc::clone(&cell),
        writer: Writer::new(ReadinessController::NAME, &metrics),
    };
    wiring.run(workers.instance, &ready, readiness);
    let quota_changed = |source| -> Arc<dyn Fn(Change<'_>) + Send + Sync> {
        let (cell, queues) = (Arc::clone(&cell), queues.clone());
        Arc::new(move |change| queues.wake(source, change, &cell))
    };
    let watches = QuotaWatches {
        cell: cell.name.clone(),
        tasks: tasks.clone(),
        metrics: metrics.clone(),
        lists: ListLimiter::default(),
        on_claim: quota_changed(CellSource::Claims),
        on_bucket: quota_changed(CellSource::Buckets),
    };
    let quota = QuotaController::new(Arc::clone(&cell), quota, Some(watches), &metrics);
    wiring.run(workers.quota, &ready, quota);
    let writeback = InstanceWriteback {
        cell,
        writer: Writer::new(InstanceWriteback::NAME, &metrics),
        events: Events::new(client, InstanceWriteback::NAME),
    };
    wiring.run(workers.writeback, &ready, writeback);
    wiring.synced()
}
