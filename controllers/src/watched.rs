//! The planes that controllers work on, and what is watched there.

use std::collections::HashMap;

use api::karmada::PropagationPolicy;
use api::{CellName, Instance, ProjectName, Workload, WorkloadDeployment};
use kube::Client;
use planes::Cache;
use planes::cache::Index;

use crate::ReconcileError;
use crate::objects::Namespace;

/// One project's API server and what is watched there.
pub(crate) struct Project {
    pub(crate) client: Client,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) workloads: Cache<Workload>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
}

/// The projects that are served.
pub(crate) struct Projects(HashMap<ProjectName, Project>);

impl Projects {
    pub(crate) fn new(projects: HashMap<ProjectName, Project>) -> Self {
        Self(projects)
    }

    /// The project of this name. One that is not served is no reason to decide anything about it.
    pub(crate) fn get(&self, name: &ProjectName) -> Result<&Project, ReconcileError> {
        self.0.get(name).ok_or_else(|| ReconcileError::NotYet {
            object: format!("project {name}"),
            missing: "its API server: the project is not served here".to_owned(),
        })
    }
}

/// The hub and what is watched there.
pub(crate) struct Hub {
    pub(crate) client: Client,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) policies: Cache<PropagationPolicy>,
    pub(crate) instances: Cache<Instance>,
    /// By namespace and name of their deployment.
    pub(crate) instances_of: Index<Instance>,
}

/// The cell of this process. Its hub is not watched but asked: a cell may read only single objects there.
pub(crate) struct Cell {
    pub(crate) name: CellName,
    pub(crate) client: Client,
    pub(crate) hub: Client,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
}
