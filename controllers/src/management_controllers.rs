//! Starts the controllers of the management plane. Registers the watches of the hub and of each project, and passes
//! each change to the triggers of the controllers.

mod hub;
mod indexes;
mod lookups;
mod needs;
mod project;
mod queues;

use std::sync::Arc;

use kube::Client;
use multicluster::{Metrics, Queue, Tasks};
use tokio_util::sync::CancellationToken;

use crate::customizations::CustomizationController;
pub use crate::federator::other_hub::HeldByHub;
use crate::federator::{Federator, StaleCells};
use crate::namespace::NamespaceController;
use crate::policy::PolicyController;
use crate::projector::{Projector, Quarantine, Quarantined};
use crate::projects::SyncedProjects;
use crate::runtime::Clock;
use crate::runtime::events::{EventPublisher, Events};
use crate::runtime::wiring::{Controller, Synced, Wiring};
use crate::runtime::write::Writer;
use crate::workload::WorkloadController;
pub(crate) use hub::HubReflectors;
use lookups::HubView;
pub use project::Management;
#[cfg(test)]
pub(crate) use project::ProjectReflectors;
use queues::ManagementQueues;

/// The dependencies of the controllers of the management plane.
pub struct Config {
    /// The hub.
    pub hub: Client,
    /// The registry of projects.
    pub projects: multicluster::ProjectRegistry,
    /// The metrics that count writes and reconciliations.
    pub metrics: Metrics,
    /// Cancelled once this process may write.
    pub may_write: CancellationToken,
    /// The source of the current time.
    pub clock: Clock,
}

/// Starts the caches of the hub and the controllers. The controllers write once these caches are filled and `may_write`
/// is cancelled.
pub fn start(tasks: &Tasks, config: Config) -> (Synced, Management) {
    let Config {
        hub: hub_client,
        projects,
        metrics,
        may_write,
        clock,
    } = config;
    let (workload, workload_workers) = Queue::new(WorkloadController::NAME, &metrics);
    let (federator, federator_workers) = Queue::new(Federator::NAME, &metrics);
    let (policy, policy_workers) = Queue::new(PolicyController::NAME, &metrics);
    let (projector, projector_workers) = Queue::new(Projector::NAME, &metrics);
    let (namespace, namespace_workers) = Queue::new(NamespaceController::NAME, &metrics);
    let (customizations, customizations_workers) =
        Queue::new(CustomizationController::NAME, &metrics);
    let queues = ManagementQueues {
        workload,
        federator,
        policy,
        projector,
        namespace,
        customizations,
    };

    let mut wiring = Wiring::new(tasks, clock);
    let reflectors = HubReflectors::new(&metrics);
    let customizations = CustomizationController {
        cache: reflectors.customizations(),
        events: Events::new(hub_client.clone(), CustomizationController::NAME),
    };
    let hub = Arc::new(reflectors.hub(hub_client));
    let projects = Arc::new(SyncedProjects::new(projects));
    let quarantined = Quarantined::new(&metrics);
    let view = HubView {
        hub: Arc::clone(&hub),
        projects: Arc::clone(&projects),
    };
    reflectors.watch(&mut wiring, &view, &queues, &metrics, &quarantined);

    let ready = wiring.ready_to_write(may_write, &metrics, {
        let (view, queues) = (view.clone(), queues.clone());
        let shadowing = customizations.cache.clone();
        move || hub::wake_all(&view, &shadowing, &queues)
    });
    let publisher = EventPublisher::start(tasks, &metrics);
    let writer = |controller| Writer::new(controller, &metrics);
    let controller = WorkloadController {
        projects: Arc::clone(&projects),
        writer: writer(WorkloadController::NAME),
        publisher: publisher.clone(),
    };
    wiring.run(workload_workers, &ready, controller);
    let stale_cells = Arc::new(StaleCells::default());
    let held_by_hub = HeldByHub::new(&metrics);
    let controller = Federator {
        stale_cells: Arc::clone(&stale_cells),
        held_by_hub: held_by_hub.clone(),
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        writer: writer(Federator::NAME),
        publisher,
    };
    wiring.run(federator_workers, &ready, controller);
    let controller = PolicyController {
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        writer: writer(PolicyController::NAME),
    };
    wiring.run(policy_workers, &ready, controller);
    let controller = Projector {
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        writer: writer(Projector::NAME),
        quarantine: Quarantine {
            client: hub.client.clone(),
            instances: hub.instances.clone(),
            writer: writer(Projector::NAME),
            events: Events::new(hub.client.clone(), Projector::NAME),
            quarantined,
        },
    };
    wiring.run(projector_workers, &ready, controller);
    let (of_projects, of_hub) = (Arc::clone(&projects), Arc::clone(&hub));
    let controller =
        NamespaceController::new(of_projects, of_hub, writer(NamespaceController::NAME));
    wiring.run(namespace_workers, &ready, controller);
    wiring.run(customizations_workers, &ready, customizations);
    let management = Management {
        projects,
        hub: view,
        queues,
        ready,
        stale_cells,
        held_by_hub,
        metrics,
    };
    (wiring.synced(), management)
}

#[cfg(test)]
mod tests;
