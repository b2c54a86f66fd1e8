//! The planes that controllers work on, and what is watched there.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use api::karmada::{PropagationPolicy, ResourceBinding};
use api::{CellName, Instance, ProjectName, Workload, WorkloadDeployment, annotations};
use kube::{Client, ResourceExt};
use planes::Cache;
use planes::cache::Index;

use crate::ReconcileError;
use crate::cells::Cells;
use crate::objects::{Namespace, Network};
use crate::policy::reservations::Reservations;
use crate::unapplied_since::{Progress, UnappliedSince};

/// One project's API server and what is watched there.
pub(crate) struct Project {
    pub(crate) client: Client,
    /// Knows the cities in which the project may run.
    pub(crate) locations: Arc<planes::projects::Project>,
    pub(crate) namespaces: Cache<Namespace>,
    /// Not every project serves them.
    pub(crate) networks: Cache<Network>,
    pub(crate) workloads: Cache<Workload>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    /// By namespace and UID of their Workload.
    pub(crate) deployments_of: Index<WorkloadDeployment>,
    /// By what makes a difference to policies.
    pub(crate) for_policies: Index<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
    /// What cells have not got of the deployments.
    pub(crate) unapplied_since: UnappliedSince,
}

/// The projects that are served: those of which everything has been listed.
pub(crate) struct Projects {
    registry: planes::Projects,
    served: RwLock<BTreeMap<ProjectName, Arc<Project>>>,
}

impl Projects {
    pub(crate) fn new(registry: planes::Projects) -> Self {
        Self {
            registry,
            served: RwLock::default(),
        }
    }

    /// What the Milo root is known by, if there is one that has said so.
    pub(crate) fn root_uid(&self) -> Option<String> {
        self.registry.root_uid()
    }

    /// The project of a hub namespace; nothing where it is proved that it is gone: by the very root that had it when the hub
    /// namespace was written. Another one on the same hub cannot tell.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotEngaged`] when it is neither served nor gone: it is not ready, or about to be served, or
    /// another's. [`ReconcileError::NotKnown`] when that cannot be told at present.
    pub(crate) async fn get_unless_gone(
        &self,
        name: &ProjectName,
        hub_namespace: &Namespace,
    ) -> Result<Option<Arc<Project>>, ReconcileError> {
        let not_engaged = match self.get(name) {
            Ok(project) => return Ok(Some(project)),
            Err(not_engaged) => not_engaged,
        };
        let known_by = hub_namespace
            .annotations()
            .get(annotations::UPSTREAM_ROOT_UID);
        let Some(root_uid) = known_by else {
            return Err(not_engaged);
        };
        match self.registry.is_gone(name, root_uid).await {
            Ok(true) => Ok(None),
            Ok(false) => Err(not_engaged),
            Err(problem) => Err(ReconcileError::NotKnown(problem)),
        }
    }

    /// The project of this name.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotEngaged`] when it is not served. That is no reason to decide anything about it.
    pub(crate) fn get(&self, name: &ProjectName) -> Result<Arc<Project>, ReconcileError> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let project = served.get(name).cloned();
        project.ok_or_else(|| ReconcileError::NotEngaged(name.clone()))
    }

    /// Serves a project from now on, in the place of another one of its name.
    pub(crate) fn enter(&self, name: ProjectName, project: Arc<Project>) {
        self.write().insert(name, project);
    }

    /// Serves a project no longer. Says whether it was the one that was served.
    pub(crate) fn leave(&self, name: &ProjectName, project: &Arc<Project>) -> bool {
        let mut projects = self.write();
        let is_served = projects
            .get(name)
            .is_some_and(|served| Arc::ptr_eq(served, project));
        is_served && projects.remove(name).is_some()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, Arc<Project>>> {
        self.served.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hub and what is watched there.
pub(crate) struct Hub {
    pub(crate) client: Client,
    pub(crate) namespaces: Cache<Namespace>,
    /// By the project that their labels name.
    pub(crate) namespaces_of: Index<Namespace>,
    /// By the namespace of a project that their labels name, as an [`Upstream`] is written.
    ///
    /// [`Upstream`]: crate::upstream::Upstream
    pub(crate) namespaces_for: Index<Namespace>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    /// By what makes a difference to policies.
    pub(crate) copies_for_policies: Index<WorkloadDeployment>,
    pub(crate) policies: Cache<PropagationPolicy>,
    pub(crate) reservations: Reservations,
    /// Whether Karmada is at work on what its cells have not got.
    pub(crate) progress: Progress,
    /// Nothing waits for them but the deletion of policies.
    pub(crate) bindings: Cache<ResourceBinding>,
    /// By what makes a difference to policies.
    pub(crate) bindings_for_policies: Index<ResourceBinding>,
    pub(crate) instances: Cache<Instance>,
    /// By namespace and name of their deployment.
    pub(crate) instances_of: Index<Instance>,
    /// Which cells can be reached, and what goes to them.
    pub(crate) cells: Cells,
}

/// The cell of this process. Its hub is not watched but asked: a cell may read only single objects there.
pub(crate) struct Cell {
    pub(crate) name: CellName,
    pub(crate) client: Client,
    pub(crate) hub: Client,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
}
