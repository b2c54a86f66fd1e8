//! Watches the claims of this cell in each project in which it has Instances. A grant then opens a gate at once.

use std::sync::Arc;

use api::quota::ResourceClaim;
use api::{CellName, ProjectName, labels};
use kube::Client;
use multicluster::cache::{Change, ListLimiter, Reflector};
use multicluster::{Cache, Metrics, Tasks};
use tokio_util::sync::DropGuard;

/// The name of all these planes together in metrics.
const PLANES: &str = "quota";

/// Starts the watches. If a project does not serve claims, or forbids the watch, claims are read at intervals.
pub(crate) struct ClaimWatches {
    pub(crate) cell: CellName,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: Metrics,
    pub(crate) lists: ListLimiter,
    /// Called with each change of a claim.
    pub(crate) on_change: Arc<dyn Fn(Change<'_>) + Send + Sync>,
}

/// The claims of this cell in one project. The watch ends when this is dropped.
pub(super) struct WatchedClaims {
    cache: Cache<ResourceClaim>,
    _watch: DropGuard,
}

impl ClaimWatches {
    /// Watches the claims of this cell in a project.
    pub(super) fn start(&self, project: &ProjectName, client: Client) -> WatchedClaims {
        let plane = format!("quota of project {project}");
        let reflector = Reflector::<ResourceClaim>::of_many(&plane, PLANES, &self.metrics);
        let mut reflector = reflector.labelled(labels::SOURCE_CLUSTER, self.cell.as_str());
        let on_change = Arc::clone(&self.on_change);
        reflector.on_change(move |change| on_change(change));
        let cache = reflector.cache();
        let watch = reflector.run(client, self.lists.for_another_server());
        WatchedClaims {
            cache,
            _watch: self.tasks.spawn_cancellable("claims of a project", watch),
        }
    }
}

impl WatchedClaims {
    /// Returns a claim, if the watch is current and has it.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        let is_current = self.cache.sync_state().borrow().is_current();
        let claim = self.cache.get(namespace, name).ok().flatten();
        claim.filter(|_| is_current)
    }
}
