//! Starts the controller of a lower hub. Registers the watches of the lower hub and passes each change to its triggers.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::karmada::Cluster;
use api::labels::LOWER_HUB;
use api::lower_hub::lease_of;
use api::rights::NAMESPACE;
use api::{CellName, LowerHub};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use multicluster::cache::{Change, Reflector};
use multicluster::heartbeat::Heartbeat;
use multicluster::{Metrics, Queue, Tasks};
use tokio_util::sync::CancellationToken;

use crate::heartbeat::{self, HeartbeatController};
use crate::hub::clusters::ClusterStates;
use crate::hub::heartbeats::WatchedLowerHubs;
pub use crate::lower_hub::HeldReport;
use crate::lower_hub::triggers::{ON_LOWER_HUB, all_cells};
use crate::lower_hub::{LowerHubCaches, LowerHubController};
use crate::runtime::Clock;
use crate::runtime::triggers::{LowerHubSource, wake};
use crate::runtime::wiring::{Controller, Synced, Wiring};
use crate::runtime::write::Writer;

/// The dependencies of the controller of a lower hub.
pub struct Config {
    /// The name of the Cluster of the lower hub on the upper hub. It has no dot.
    pub name: CellName,
    /// The lower hub.
    pub client: Client,
    /// The upper hub.
    pub upper_hub: Client,
    /// The metrics that count writes and reconciliations.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// The source of the current time.
    pub clock: Clock,
}

/// Starts the caches and the controller of a lower hub. The report is held if one of the hubs is another one.
pub fn start(tasks: &Tasks, config: Config) -> (Synced, HeldReport) {
    let Config {
        name,
        client,
        upper_hub,
        metrics,
        may_write,
        clock,
    } = config;
    let (queue, workers) = Queue::new(LowerHubController::NAME, &metrics);
    let mut clusters = Reflector::<Cluster>::new("lower hub", &metrics);
    let mut lower_hubs = Reflector::<LowerHub>::new("lower hub", &metrics).optional();
    let mut leases = Reflector::<Lease>::new("lower hub", &metrics).labelled(LOWER_HUB, "true");
    let watched = WatchedLowerHubs::new(client.clone(), &mut lower_hubs, &leases);
    let caches = Arc::new(LowerHubCaches {
        name,
        client: client.clone(),
        upper_hub,
        clusters: ClusterStates::new(clusters.cache()),
        lower_hubs: watched.clone(),
        has_reported: AtomicBool::default(),
    });
    clusters.on_change({
        let (queue, caches) = (queue.clone(), Arc::clone(&caches));
        move |change: Change<'_>| {
            wake(&queue, ON_LOWER_HUB, LowerHubSource::Clusters, change, &());
            let cluster = change.current.or(change.former);
            let cluster = cluster.and_then(|cluster| cluster.name.as_deref());
            if cluster.is_some_and(|cluster| caches.clusters.changed(cluster)) {
                let source = LowerHubSource::Reachability;
                wake(&queue, ON_LOWER_HUB, source, change, &());
            }
        }
    });
    lower_hubs.on_change({
        let queue = queue.clone();
        move |change| wake(&queue, ON_LOWER_HUB, LowerHubSource::LowerHubs, change, &())
    });
    let (beats, beat_workers) = Queue::new(HeartbeatController::NAME, &metrics);
    heartbeat::wake_on_heartbeats(&mut lower_hubs, &mut leases, &watched.heartbeats, &beats);

    let mut wiring = Wiring::new(tasks, clock);
    wiring.watch("Clusters of the lower hub", clusters, client.clone());
    wiring.watch_if_served(
        "LowerHubs of the lower hub",
        "cells below further lower hubs are not reported",
        lower_hubs,
        client.clone(),
    );
    wiring.watch_in_background(
        "Leases of further lower hubs",
        "nothing shows that the process of a further lower hub is silent",
        leases,
        client,
    );
    let ready = wiring.ready_to_write(may_write, &metrics, {
        let lower_hubs = watched.cache.clone();
        move || {
            queue.add(all_cells());
            heartbeat::wake_all(&lower_hubs, &beats);
        }
    });
    beat(tasks, &caches, &ready);
    let writer = Writer::new(LowerHubController::NAME, &metrics);
    let held = HeldReport::new(&metrics);
    let controller = LowerHubController::new(caches, writer, held.clone());
    wiring.run(workers, &ready, controller);
    let writer = Writer::new(HeartbeatController::NAME, &metrics);
    let controller = HeartbeatController::new(watched, held.hub_check(), writer, &metrics);
    wiring.run(beat_workers, &ready, controller);
    (wiring.synced(), held)
}

/// Sends a heartbeat to the upper hub while it knows the state of the cells from this process.
fn beat(tasks: &Tasks, caches: &Arc<LowerHubCaches>, ready: &CancellationToken) {
    let lease = lease_of(caches.name.as_str());
    let heartbeat = Heartbeat::new(caches.upper_hub.clone(), NAMESPACE, lease);
    let (caches, ready, stop) = (Arc::clone(caches), ready.clone(), tasks.stop());
    tasks.spawn("heartbeat of the lower hub", async move {
        let beating = async {
            ready.cancelled().await;
            heartbeat.run(|| caches.are_reported()).await;
        };
        stop.run_until_cancelled(beating).await;
        Ok::<_, Infallible>(())
    });
}
