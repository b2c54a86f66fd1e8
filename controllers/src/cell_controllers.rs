//! The controllers of a cell, and what each of them hears of.

use std::sync::Arc;

use api::{CellName, Instance, WorkloadDeployment};
use kube::Client;
use multicluster::cache::Reflector;
use multicluster::{Metrics, Queue, Tasks};
use tokio_util::sync::CancellationToken;

use crate::cell::CellCaches;
use crate::deployment::DeploymentController;
use crate::instance::InstanceController;
use crate::instance_writeback::InstanceWriteback;
use crate::objects::controller_name;
use crate::runtime::Clock;
use crate::runtime::events::Events;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::{Controller, Synced, Wiring, for_each_version};
use crate::runtime::write::Writer;

/// What the controllers of a cell need.
pub struct Config {
    /// Name of the cell, which every copy on the hub carries.
    pub name: CellName,
    /// The cell's API server.
    pub client: Client,
    /// The hub.
    pub hub: Client,
    /// Where writes and reconciliations are counted.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// Tells the time.
    pub clock: Clock,
}

/// Starts the caches and the controllers of a cell.
pub fn start(tasks: &Tasks, config: Config) -> Synced {
    let Config {
        name,
        client,
        hub,
        metrics,
        may_write,
        clock,
    } = config;
    let (deployment_queue, deployment_workers) = Queue::new(DeploymentController::NAME, &metrics);
    let (instance_queue, instance_workers) = Queue::new(InstanceController::NAME, &metrics);
    let (writeback_queue, writeback_workers) = Queue::new(InstanceWriteback::NAME, &metrics);

    let mut deployments = Reflector::<WorkloadDeployment>::new("cell", &metrics);
    let mut instances = Reflector::<Instance>::new("cell", &metrics);
    instances.on_change({
        let writeback_queue = writeback_queue.clone();
        for_each_version(move |metadata| {
            instance_queue.add(ObjectKey::of(metadata));
            writeback_queue.add(ObjectKey::of(metadata));
        })
    });
    instances.on_change({
        let queue = deployment_queue.clone();
        for_each_version(move |metadata| {
            if let Some(name) = controller_name::<WorkloadDeployment>(metadata) {
                queue.add(ObjectKey {
                    name: name.to_owned(),
                    ..ObjectKey::of(metadata)
                });
            }
        })
    });
    deployments.on_change(for_each_version(move |metadata| {
        deployment_queue.add(ObjectKey::of(metadata));
    }));

    let cell = Arc::new(CellCaches {
        name,
        client: client.clone(),
        hub,
        deployments: deployments.cache(),
        instances: instances.cache(),
    });
    let mut wiring = Wiring::new(tasks, clock);
    wiring.follow(
        "WorkloadDeployments of the cell",
        deployments,
        client.clone(),
    );
    wiring.follow("Instances of the cell", instances, client.clone());
    let ready = wiring.ready_to_write(may_write);
    let deployment_controller = DeploymentController {
        cell: Arc::clone(&cell),
        writer: Writer::new(DeploymentController::NAME, &metrics),
        copies: writeback_queue,
    };
    wiring.run(deployment_workers, &ready, deployment_controller);
    let instance_controller = InstanceController {
        cell: Arc::clone(&cell),
        writer: Writer::new(InstanceController::NAME, &metrics),
    };
    wiring.run(instance_workers, &ready, instance_controller);
    let writeback = InstanceWriteback {
        cell,
        writer: Writer::new(InstanceWriteback::NAME, &metrics),
        events: Events::new(client, InstanceWriteback::NAME),
    };
    wiring.run(writeback_workers, &ready, writeback);
    wiring.synced()
}
