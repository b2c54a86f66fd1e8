//! The work queues of the controllers of the management plane.

use api::ProjectName;
use multicluster::cache::Change;
use multicluster::queue::Workers;
use multicluster::{Metrics, Queue};

use crate::cell_rules::CellRuleController;
use crate::customizations::CustomizationController;
use crate::federator::Federator;
use crate::heartbeat::HeartbeatController;
use crate::namespace::NamespaceController;
use crate::policy::PolicyController;
use crate::projector::Projector;
use crate::projects::SyncedProjects;
use crate::referenced_data::ReferencedDataController;
use crate::referenced_data::companion_controller::CompanionController;
use crate::runtime::keys::{HubKey, InstanceKey, ObjectKey, ProjectKey, SourceKey};
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, wake};
use crate::runtime::wiring::Controller;
use crate::summary::SummaryController;
use crate::workload::WorkloadController;
use crate::{federator, namespace, policy, projector, referenced_data, summary, workload};

/// The work queue of each controller. Cheap to clone.
#[derive(Clone)]
pub(super) struct ManagementQueues {
    pub(super) workload: Queue<ProjectKey>,
    pub(super) federator: Queue<ProjectKey>,
    pub(super) policy: Queue<HubKey>,
    pub(super) projector: Queue<InstanceKey>,
    pub(super) namespace: Queue<HubKey>,
    pub(super) referenced_data: Queue<ProjectKey>,
    pub(super) companion: Queue<SourceKey>,
    pub(super) summary: Queue<ProjectKey>,
    pub(super) cell_rules: Queue<ObjectKey>,
    pub(super) heartbeat: Queue<ObjectKey>,
    pub(super) customizations: Queue<ObjectKey>,
}

/// The workers of each queue.
pub(super) struct ManagementWorkers {
    pub(super) workload: Workers<ProjectKey>,
    pub(super) federator: Workers<ProjectKey>,
    pub(super) policy: Workers<HubKey>,
    pub(super) projector: Workers<InstanceKey>,
    pub(super) namespace: Workers<HubKey>,
    pub(super) referenced_data: Workers<ProjectKey>,
    pub(super) companion: Workers<SourceKey>,
    pub(super) summary: Workers<ProjectKey>,
    pub(super) cell_rules: Workers<ObjectKey>,
    pub(super) heartbeat: Workers<ObjectKey>,
    pub(super) customizations: Workers<ObjectKey>,
}

impl ManagementQueues {
    /// Makes all queues.
    pub(super) fn new(metrics: &Metrics) -> (Self, ManagementWorkers) {
        let (workload, workload_workers) = Queue::new(WorkloadController::NAME, metrics);
        let (federator, federator_workers) = Queue::new(Federator::NAME, metrics);
        let (policy, policy_workers) = Queue::new(PolicyController::NAME, metrics);
        let (projector, projector_workers) = Queue::new(Projector::NAME, metrics);
        let (namespace, namespace_workers) = Queue::new(NamespaceController::NAME, metrics);
        let (referenced_data, data_workers) = Queue::new(ReferencedDataController::NAME, metrics);
        let (companion, companion_workers) = Queue::new(CompanionController::NAME, metrics);
        let (summary, summary_workers) = Queue::new(SummaryController::NAME, metrics);
        let (cell_rules, cell_rules_workers) = Queue::new(CellRuleController::NAME, metrics);
        let (heartbeat, heartbeat_workers) = Queue::new(HeartbeatController::NAME, metrics);
        let (customizations, customizations_workers) =
            Queue::new(CustomizationController::NAME, metrics);
        let queues = Self {
            workload,
            federator,
            policy,
            projector,
            namespace,
            referenced_data,
            companion,
            summary,
            cell_rules,
            heartbeat,
            customizations,
        };
        let workers = ManagementWorkers {
            workload: workload_workers,
            federator: federator_workers,
            policy: policy_workers,
            projector: projector_workers,
            namespace: namespace_workers,
            referenced_data: data_workers,
            companion: companion_workers,
            summary: summary_workers,
            cell_rules: cell_rules_workers,
            heartbeat: heartbeat_workers,
            customizations: customizations_workers,
        };
        (queues, workers)
    }

    /// Passes a change in a project to the triggers of each controller.
    pub(super) fn wake_on_project(
        &self,
        source: ProjectSource,
        change: Change<'_>,
        project: &(dyn ProjectLookups + 'static),
    ) {
        let rows = workload::triggers::ON_PROJECT;
        wake(&self.workload, rows, source, change, project);
        let rows = federator::triggers::ON_PROJECT;
        wake(&self.federator, rows, source, change, project);
        let rows = policy::triggers::ON_PROJECT;
        wake(&self.policy, rows, source, change, project);
        let rows = projector::triggers::ON_PROJECT;
        wake(&self.projector, rows, source, change, project);
        let rows = namespace::triggers::ON_PROJECT;
        wake(&self.namespace, rows, source, change, project);
        let rows = referenced_data::triggers::ON_PROJECT;
        wake(&self.referenced_data, rows, source, change, project);
        let rows = referenced_data::triggers::COMPANION_ON_PROJECT;
        wake(&self.companion, rows, source, change, project);
        let rows = summary::triggers::ON_PROJECT;
        wake(&self.summary, rows, source, change, project);
    }

    /// Passes a change on the hub to the triggers of each controller.
    pub(super) fn wake_on_hub(
        &self,
        source: HubSource,
        change: Change<'_>,
        hub: &(dyn HubLookups + 'static),
    ) {
        let rows = federator::triggers::ON_HUB;
        wake(&self.federator, rows, source, change, hub);
        let rows = policy::triggers::ON_HUB;
        wake(&self.policy, rows, source, change, hub);
        let rows = projector::triggers::ON_HUB;
        wake(&self.projector, rows, source, change, hub);
        let rows = namespace::triggers::ON_HUB;
        wake(&self.namespace, rows, source, change, hub);
        let rows = referenced_data::triggers::COMPANION_ON_HUB;
        wake(&self.companion, rows, source, change, hub);
        let rows = summary::triggers::ON_HUB;
        wake(&self.summary, rows, source, change, hub);
    }

    /// Adds the WorkloadDeployments that use or list a source.
    pub(super) fn wake_users(&self, projects: &SyncedProjects, key: &SourceKey) {
        let Ok(project) = projects.get(&key.project) else {
            return;
        };
        for (namespace, name) in project.data.names_of_users(&key.namespace, &key.source) {
            let deployment = ProjectKey::new(&key.project, &namespace, &name);
            self.referenced_data.add(deployment);
        }
    }

    /// Forgets the keys of a project that is no longer served.
    pub(super) fn forget(&self, name: &ProjectName) {
        self.workload.forget(name);
        self.federator.forget(name);
        self.policy.forget(&Some(name.clone()));
        self.projector.forget(&Some(name.clone()));
        self.namespace.forget(&Some(name.clone()));
        self.referenced_data.forget(name);
        self.companion.forget(name);
        self.summary.forget(name);
    }

    /// Retries the keys of a project that wait for its API server to answer again.
    pub(super) fn release(&self, name: &ProjectName) {
        self.workload.release(name);
        self.federator.release(name);
        self.policy.release(&Some(name.clone()));
        self.projector.release(&Some(name.clone()));
        self.namespace.release(&Some(name.clone()));
        self.referenced_data.release(name);
        self.companion.release(name);
        self.summary.release(name);
    }
}
