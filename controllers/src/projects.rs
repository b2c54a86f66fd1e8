//! The planes that controllers work on, and what is watched there.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use api::{Instance, ProjectName, Workload, WorkloadDeployment, annotations};
use kube::{Client, ResourceExt};
use multicluster::Cache;
use multicluster::cache::Index;

use crate::objects::{Namespace, Network};
use crate::runtime::ReconcileError;

/// One project's API server and what is watched there.
pub(crate) struct ProjectCaches {
    pub(crate) client: Client,
    /// Knows the cities in which the project may run.
    pub(crate) locations: Arc<multicluster::projects::EngagedProject>,
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
}

/// The projects that are served: those of which everything has been listed.
pub(crate) struct SyncedProjects {
    registry: multicluster::ProjectRegistry,
    served: RwLock<BTreeMap<ProjectName, Arc<ProjectCaches>>>,
}

impl SyncedProjects {
    pub(crate) fn new(registry: multicluster::ProjectRegistry) -> Self {
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
    ) -> Result<Option<Arc<ProjectCaches>>, ReconcileError> {
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
    pub(crate) fn get(&self, name: &ProjectName) -> Result<Arc<ProjectCaches>, ReconcileError> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let project = served.get(name).cloned();
        project.ok_or_else(|| ReconcileError::NotEngaged(name.clone()))
    }

    /// Serves a project from now on, in the place of another one of its name.
    pub(crate) fn register(&self, name: ProjectName, project: Arc<ProjectCaches>) {
        self.write().insert(name, project);
    }

    /// Serves a project no longer. Says whether it was the one that was served.
    pub(crate) fn unregister(&self, name: &ProjectName, project: &Arc<ProjectCaches>) -> bool {
        let mut projects = self.write();
        let is_served = projects
            .get(name)
            .is_some_and(|served| Arc::ptr_eq(served, project));
        is_served && projects.remove(name).is_some()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ProjectName, Arc<ProjectCaches>>> {
        self.served.write().unwrap_or_else(PoisonError::into_inner)
    }
}
