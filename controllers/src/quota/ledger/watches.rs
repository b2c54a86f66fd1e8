//! Watches the claims of this cell in each project in which it has Instances. A grant then opens a gate at once.
//! While an Instance of the project is denied, the quota that is left is watched too. Then a raised quota is used at
//! once.

use std::sync::Arc;

use api::quota::{AllowanceBucket, BUCKETS_NAMESPACE, ResourceClaim, ResourceRequest};
use api::{CellName, ProjectName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use multicluster::cache::{Change, ListLimiter, Reflector};
use multicluster::{Cache, Metrics, Tasks};
use tokio_util::sync::DropGuard;

/// The name of all these planes together in metrics.
const PLANES: &str = "quota";

/// Starts the watches. If a project does not serve claims, or forbids the watch, claims are read at intervals, and a
/// denied claim is made anew at intervals.
pub(crate) struct QuotaWatches {
    pub(crate) cell: CellName,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: Metrics,
    pub(crate) lists: ListLimiter,
    /// Called with each change of a claim.
    pub(crate) on_claim: OnClaim,
    /// Called with each change of the quota that is left.
    pub(crate) on_bucket: OnChange,
}

type OnChange = Arc<dyn Fn(Change<'_>) + Send + Sync>;
type OnClaim = Arc<dyn Fn(&ProjectName, Change<'_>) + Send + Sync>;

/// The claims of this cell in one project. The watch ends when this is dropped.
pub(super) struct WatchedClaims {
    cache: Cache<ResourceClaim>,
    _watch: DropGuard,
}

/// The quota that a project has left. The watch ends when this is dropped.
pub(super) struct WatchedBuckets {
    cache: Cache<AllowanceBucket>,
    _watch: DropGuard,
}

impl QuotaWatches {
    /// Watches the claims of this cell in a project.
    pub(super) fn claims(&self, project: &ProjectName, client: Client) -> WatchedClaims {
        let plane = format!("quota of project {project}");
        let reflector = Reflector::<ResourceClaim>::of_many(&plane, PLANES, &self.metrics);
        let mut reflector = reflector.labelled(labels::SOURCE_CLUSTER, self.cell.as_str());
        let on_claim = Arc::clone(&self.on_claim);
        let of = project.clone();
        reflector.on_change(move |change| on_claim(&of, change));
        let cache = reflector.cache();
        let watch = reflector.run(client, self.lists.for_another_server());
        WatchedClaims {
            cache,
            _watch: self.tasks.spawn_cancellable("claims of a project", watch),
        }
    }

    /// Watches the quota that a project has left.
    pub(super) fn buckets(&self, project: &ProjectName, client: Client) -> WatchedBuckets {
        let plane = format!("quota of project {project}");
        let mut reflector = Reflector::<AllowanceBucket>::of_many(&plane, PLANES, &self.metrics);
        let on_bucket = Arc::clone(&self.on_bucket);
        reflector.on_change(move |change| on_bucket(change));
        let cache = reflector.cache();
        let watch = reflector.run(client, self.lists.for_another_server());
        WatchedBuckets {
            cache,
            _watch: self.tasks.spawn_cancellable("quota of a project", watch),
        }
    }
}

impl WatchedBuckets {
    /// Returns whether the watch is current and shows that the project has all these amounts left.
    pub(super) fn have_room(&self, project: &ProjectName, requests: &[ResourceRequest]) -> bool {
        if !self.cache.sync_state().borrow().is_current() {
            return false;
        }
        let buckets = self.cache.readable(BUCKETS_NAMESPACE);
        let has_room = |request| {
            let mut buckets = buckets.iter();
            buckets.any(|bucket| bucket.has_room(project.as_str(), request))
        };
        requests.iter().all(has_room)
    }
}

impl WatchedClaims {
    /// Returns whether the watch is current.
    pub(super) fn is_current(&self) -> bool {
        self.cache.sync_state().borrow().is_current()
    }

    /// Returns the metadata of all claims.
    pub(super) fn metadata(&self) -> Vec<ObjectMeta> {
        let claims = self.cache.keys().into_iter();
        let claims =
            claims.filter_map(|(namespace, name)| self.cache.metadata_of(&namespace, &name));
        claims.collect()
    }

    /// Returns a claim, if the watch is current and has it.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        let claim = self.cache.get(namespace, name).ok().flatten();
        claim.filter(|_| self.is_current())
    }
}
