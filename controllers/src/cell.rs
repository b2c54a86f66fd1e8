//! The API servers and caches of a cell.

use api::{CellName, Instance, WorkloadDeployment};
use kube::Client;
use multicluster::Cache;

/// The cell of this process. The hub is read with GET requests for single objects and is not watched, because a cell
/// has no permission to list there.
pub(crate) struct CellCaches {
    pub(crate) name: CellName,
    pub(crate) client: Client,
    pub(crate) hub: Client,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
}
