//! What is watched in the cell of this process.

use api::{CellName, Instance, WorkloadDeployment};
use kube::Client;
use multicluster::Cache;

/// The cell of this process. Its hub is not watched but asked: a cell may read only single objects there.
pub(crate) struct CellCaches {
    pub(crate) name: CellName,
    pub(crate) client: Client,
    pub(crate) hub: Client,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
}
