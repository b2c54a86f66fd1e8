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
use multicluster::queue::Workers;
use multicluster::{Metrics, Tasks};
use tokio_util::sync::CancellationToken;

use crate::cell_rules::CellRuleController;
use crate::customizations::CustomizationController;
pub use crate::federator::other_hub::HeldByHub;
use crate::federator::{Federator, StaleCells};
use crate::heartbeat::HeartbeatController;
use crate::hub::HubCaches;
use crate::hub_in_use::HubInUse;
use crate::namespace::NamespaceController;
use crate::policy::PolicyController;
use crate::projector::{Projector, Quarantine, Quarantined};
use crate::projects::SyncedProjects;
use crate::referenced_data::ReferencedDataController;
use crate::referenced_data::companion::Companions;
use crate::referenced_data::companion_controller::CompanionController;
use crate::runtime::Clock;
use crate::runtime::events::{EventPublisher, Events};
use crate::runtime::keys::{ObjectKey, ProjectKey, SourceKey};
use crate::runtime::wiring::{Controller, Synced, Wiring};
use crate::runtime::write::Writer;
use crate::summary::SummaryController;
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
    let (queues, workers) = ManagementQueues::new(&metrics);
    let mut wiring = Wiring::new(tasks, clock);
    let mut reflectors = HubReflectors::new(&metrics);
    let stale_cells = Arc::new(StaleCells::default());
    reflectors.forget_deleted_cells(&stale_cells);
    let customizations = CustomizationController {
        cache: reflectors.customizations(),
        events: Events::new(hub_client.clone(), CustomizationController::NAME),
    };
    let hub = Arc::new(reflectors.hub(hub_client));
    let projects = Arc::new(SyncedProjects::new(projects, hub.namespaces.clone()));
    let hub_in_use = HubInUse::new(Arc::clone(&projects), Arc::clone(&hub));
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
    wiring.run(workers.workload, &ready, controller);
    let held_by_hub = HeldByHub::new(&metrics);
    let controller = Federator {
        stale_cells: Arc::clone(&stale_cells),
        held_by_hub: held_by_hub.clone(),
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        hub_in_use: hub_in_use.clone(),
        writer: writer(Federator::NAME),
        publisher: publisher.clone(),
    };
    wiring.run(workers.federator, &ready, controller);
    let controller = PolicyController {
        projects: Arc::clone(&projects),
        hub: Arc::clone(&hub),
        hub_in_use: hub_in_use.clone(),
        writer: writer(PolicyController::NAME),
    };
    wiring.run(workers.policy, &ready, controller);
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
    wiring.run(workers.projector, &ready, controller);
    let (of_projects, of_hub) = (Arc::clone(&projects), Arc::clone(&hub));
    let of_namespaces = writer(NamespaceController::NAME);
    let controller =
        NamespaceController::new(of_projects, of_hub, hub_in_use.clone(), of_namespaces);
    wiring.run(workers.namespace, &ready, controller);
    let (of_projects, of_hub) = (Arc::clone(&projects), Arc::clone(&hub));
    let controller = SummaryController::new(of_projects, of_hub, writer(SummaryController::NAME));
    wiring.run(workers.summary, &ready, controller);
    let of_hub = (workers.cell_rules, workers.heartbeat);
    run_on_hub(&wiring, &ready, of_hub, &hub, &hub_in_use, &metrics);
    wiring.run(workers.customizations, &ready, customizations);
    let data = (workers.referenced_data, workers.companion);
    let companions =
        run_referenced_data(&wiring, &ready, data, &view, &queues, &metrics, publisher);
    let management = Management {
        projects,
        hub: view,
        queues,
        ready,
        stale_cells,
        held_by_hub,
        hub_in_use,
        companions,
        metrics,
    };
    (wiring.synced(), management)
}

/// Runs the controllers that read and write nothing but the hub.
fn run_on_hub(
    wiring: &Wiring<'_>,
    ready: &CancellationToken,
    (cell_rules, heartbeat): (Workers<ObjectKey>, Workers<ObjectKey>),
    hub: &Arc<HubCaches>,
    hub_in_use: &HubInUse,
    metrics: &Metrics,
) {
    let controller = CellRuleController {
        hub: Arc::clone(hub),
        hub_in_use: hub_in_use.clone(),
        writer: Writer::new(CellRuleController::NAME, metrics),
    };
    wiring.run(cell_rules, ready, controller);
    let (lower_hubs, hub_check) = (hub.lower_hubs.clone(), hub_in_use.clone().into());
    let writer = Writer::new(HeartbeatController::NAME, metrics);
    let controller = HeartbeatController::new(lower_hubs, hub_check, writer, metrics);
    wiring.run(heartbeat, ready, controller);
}

/// Runs the controllers of the ConfigMaps and Secrets of templates. Returns what they share.
fn run_referenced_data(
    wiring: &Wiring<'_>,
    ready: &CancellationToken,
    (workers, companion_workers): (Workers<ProjectKey>, Workers<SourceKey>),
    view: &HubView,
    queues: &ManagementQueues,
    metrics: &Metrics,
    publisher: EventPublisher,
) -> Arc<Companions> {
    let HubView { hub, projects } = view;
    let companions = Arc::new(Companions::new(
        Arc::clone(hub),
        Writer::new(CompanionController::NAME, metrics),
    ));
    let controller = ReferencedDataController {
        projects: Arc::clone(projects),
        companions: Arc::clone(&companions),
        writer: Writer::new(ReferencedDataController::NAME, metrics),
        publisher,
        on_release: Box::new({
            let queue = queues.companion.clone();
            move |source| queue.add(source.clone())
        }),
    };
    wiring.run(workers, ready, controller);
    let controller = CompanionController {
        projects: Arc::clone(projects),
        companions: Arc::clone(&companions),
        on_change: Box::new({
            let (projects, queues) = (Arc::clone(projects), queues.clone());
            move |source| queues.wake_users(&projects, source)
        }),
        on_released: Box::new({
            let queue = queues.referenced_data.clone();
            move |deployment| queue.add(deployment.clone())
        }),
    };
    wiring.run(companion_workers, ready, controller);
    companions
}

#[cfg(test)]
mod tests;
