//! The work queues of the controllers of the management plane.

use api::ProjectName;
use multicluster::Queue;
use multicluster::cache::Change;

use crate::runtime::keys::{HubKey, InstanceKey, ObjectKey, ProjectKey};
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::runtime::triggers::{HubSource, ProjectSource, wake};
use crate::{federator, namespace, policy, projector, workload};

/// The work queue of each controller. Cheap to clone.
#[derive(Clone)]
pub(super) struct ManagementQueues {
    pub(super) workload: Queue<ProjectKey>,
    pub(super) federator: Queue<ProjectKey>,
    pub(super) policy: Queue<HubKey>,
    pub(super) projector: Queue<InstanceKey>,
    pub(super) namespace: Queue<HubKey>,
    pub(super) customizations: Queue<ObjectKey>,
}

impl ManagementQueues {
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
    }

    /// Forgets the keys of a project that is no longer served.
    pub(super) fn forget(&self, name: &ProjectName) {
        self.workload.forget(name);
        self.federator.forget(name);
        self.policy.forget(&Some(name.clone()));
        self.projector.forget(&Some(name.clone()));
        self.namespace.forget(&Some(name.clone()));
    }

    /// Retries the keys of a project that wait for its API server to answer again.
    pub(super) fn release(&self, name: &ProjectName) {
        self.workload.release(name);
        self.federator.release(name);
        self.policy.release(&Some(name.clone()));
        self.projector.release(&Some(name.clone()));
        self.namespace.release(&Some(name.clone()));
    }
}
