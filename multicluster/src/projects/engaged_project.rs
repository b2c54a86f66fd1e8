//! A project whose API server is used.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::ProjectName;
use api::condition::{self, Condition};
use api::networking::{AVAILABLE, CITY_CODE, LocationBinding};
use kube::{Client, Resource};
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use crate::cache::{Cache, ListLimiter, Reflector, SyncState};
use crate::metrics::{Counted, KindLabels, Metrics};

/// Value of the metric label `plane` for the caches of all projects. A project has no value of its own, because there
/// may be thousands of projects.
const PROJECTS: &str = "projects";
/// Maximum number of concurrent requests of admission to one project's API server. Each request holds memory until it
/// is answered. The memory of 256 requests is a few MiB.
const REQUESTS: usize = 256;
/// Longest time that the handler of a project waits for the list of LocationBindings before it starts. During this
/// wait, the handler sends no requests.
const UNANSWERED: Duration = Duration::from_mins(1);

/// Longest time for which admission uses the cities of a cache that is no longer current: 60 s. A restart of an API
/// server or of its front is shorter. A city rarely goes, and the placement of Workloads checks the cities again.
const OUTDATED_MAX: Duration = Duration::from_mins(1);

/// A project whose API server is used: its client, its cities, and whether it is suspended.
pub struct EngagedProject {
    name: ProjectName,
    client: Client,
    bindings: Cache<LocationBinding>,
    sync_state: watch::Receiver<SyncState>,
    lists: ListLimiter,
    kinds: FailingKinds,
    cities: Arc<CityCache>,
    bindings_changed: watch::Sender<()>,
    suspended: watch::Sender<bool>,
    requests: Semaphore,
}

/// The reason why the cache of a project's LocationBindings is not current. Each message may be shown to users.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotCurrent {
    /// The first list has neither succeeded nor failed yet. A request without an answer fails after 30 s.
    #[error("LocationBindings of project {0} have not been listed yet")]
    Listing(ProjectName),
    /// The API server of the project refuses the list, or cannot be reached.
    #[error("LocationBindings of project {project} cannot be listed: {problem}")]
    Failing {
        /// The project.
        project: ProjectName,
        /// The message of its API server, or the reason why the request failed.
        problem: String,
    },
}

impl EngagedProject {
    /// Returns the project and its task. The task keeps the cache of LocationBindings current until the task is
    /// dropped.
    pub(super) fn new(
        name: ProjectName,
        client: Client,
        lists: ListLimiter,
        metrics: &Metrics,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let plane = format!("project/{name}");
        let mut reflector = Reflector::<LocationBinding>::of_many(&plane, PROJECTS, metrics);
        let cities = Arc::new(CityCache::default());
        let bindings_changed = watch::Sender::new(());
        reflector.on_change({
            let (cities, changed) = (Arc::clone(&cities), bindings_changed.clone());
            move |_| {
                cities.forget();
                changed.send_replace(());
            }
        });
        let bindings = reflector.cache();
        let failing = watch::Sender::new(0);
        let count = count_project(failing.subscribe(), metrics.projects_failing.clone());
        let kinds = FailingKinds {
            failing,
            metrics: metrics.clone(),
        };
        let count_bindings = kinds.count(&bindings);
        let project = Self {
            name,
            client: client.clone(),
            sync_state: bindings.sync_state(),
            bindings,
            lists: lists.clone(),
            kinds,
            cities,
            bindings_changed,
            suspended: watch::Sender::new(false),
            requests: Semaphore::new(REQUESTS),
        };
        let task = async move {
            tokio::join!(reflector.run(client, lists), count_bindings, count);
        };
        (project, task)
    }

    /// Returns the name of the project.
    pub fn name(&self) -> &ProjectName {
        &self.name
    }

    /// Returns a client of the project's API server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for a permit to send a request of admission to the project's API server. The number of permits is limited,
    /// because requests hold memory while the API server does not answer.
    pub async fn request_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.requests.acquire().await.ok()
    }

    /// Returns the sorted codes of the cities in which the project may run. These are the cities of all
    /// LocationBindings whose condition Available is not False. A binding that cannot be decoded is skipped.
    ///
    /// # Errors
    ///
    /// [`NotCurrent`] if the cache of LocationBindings is not current.
    pub fn cities(&self) -> Result<Arc<BTreeSet<String>>, NotCurrent> {
        self.current()?;
        Ok(self.cities.of(&self.bindings))
    }

    /// Returns the same as [`EngagedProject::cities`]. Use it while a user waits: if the cache is not current, the list
    /// is retried soon. For `OUTDATED_MAX` after the cache was current last, returns the cities that were known then,
    /// together with the problem.
    ///
    /// # Errors
    ///
    /// [`NotCurrent`] if the cache of LocationBindings has not been current for longer.
    pub fn cities_now(&self) -> Result<(Arc<BTreeSet<String>>, Option<NotCurrent>), NotCurrent> {
        let Err(problem) = self.current() else {
            return Ok((self.cities.of(&self.bindings), None));
        };
        self.lists.retry_soon();
        match self.bindings.stale_for() {
            Some(time) if time <= OUTDATED_MAX => {
                Ok((self.cities.of(&self.bindings), Some(problem)))
            }
            _ => Err(problem),
        }
    }

    /// Returns a future that ends when the result of [`EngagedProject::cities`] may have changed since this call.
    pub fn cities_change(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut bindings, mut sync_state) =
            (self.bindings_changed.subscribe(), self.sync_state.clone());
        sync_state.mark_unchanged();
        async move {
            // Both senders live as long as the project, so an error means that the project was dropped.
            tokio::select! {
                _ = bindings.changed() => {}
                _ = sync_state.changed() => {}
            }
        }
    }

    pub(super) fn suspend(&self, is_suspended: bool) {
        self.suspended.send_replace(is_suspended);
    }

    /// Returns whether the project rejects creates and updates.
    pub fn is_suspended(&self) -> bool {
        *self.suspended.borrow()
    }

    /// Returns the sync state of the cache of LocationBindings.
    pub fn bindings_state(&self) -> SyncState {
        self.sync_state.borrow().clone()
    }

    /// Returns a future that ends when the project is suspended or resumed. After a resumption, rejected writes may
    /// succeed.
    pub fn suspension_change(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut suspended = self.suspended.subscribe();
        async move {
            // The sender lives as long as the project, so an error means that the project was dropped.
            let _ = suspended.changed().await;
        }
    }

    /// Returns a future that counts the project as failing while this cache is not current. The future never ends.
    pub fn count_failures<K: Resource<DynamicType = ()>>(
        &self,
        cache: &Cache<K>,
    ) -> impl Future<Output = ()> + Send + 'static + use<K> {
        self.kinds.count(cache)
    }

    /// Returns the list limiter for a cache of the project.
    pub fn list_limiter(&self) -> ListLimiter {
        self.lists.for_another_cache()
    }

    /// Waits until LocationBindings are listed, or until the API server answers that it does not serve them. Waits at
    /// most for [`UNANSWERED`]. The handler of the project starts after this wait. If the handler started earlier, its
    /// lists could hold slots of the list limiter while the API server does not answer.
    pub(super) async fn answered(&self) {
        let mut sync_state = self.sync_state.clone();
        let answered = |sync_state: &SyncState| {
            matches!(sync_state, SyncState::Current | SyncState::NotServed { .. })
        };
        let _ = timeout(UNANSWERED, sync_state.wait_for(answered)).await;
    }

    /// Checks that the cache of LocationBindings is current.
    pub(super) fn current(&self) -> Result<(), NotCurrent> {
        match &*self.sync_state.borrow() {
            SyncState::Current => Ok(()),
            SyncState::Listing => Err(NotCurrent::Listing(self.name.clone())),
            SyncState::Failing { problem }
            | SyncState::Forbidden { problem }
            | SyncState::NotServed { problem } => Err(NotCurrent::Failing {
                project: self.name.clone(),
                problem: problem.clone(),
            }),
        }
    }
}

impl fmt::Debug for EngagedProject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngagedProject")
            .field("name", &self.name)
            .field("sync_state", &*self.sync_state.borrow())
            .finish_non_exhaustive()
    }
}

/// The cities of a cache of LocationBindings. They are computed at the first use after a change.
#[derive(Debug, Default)]
struct CityCache(Mutex<Option<Arc<BTreeSet<String>>>>);

impl CityCache {
    fn known(&self) -> MutexGuard<'_, Option<Arc<BTreeSet<String>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the computed cities, because a binding has changed.
    fn forget(&self) {
        *self.known() = None;
    }

    /// Returns the cities. The lock is held while they are computed. A concurrent change therefore drops the cities
    /// only after they are stored.
    fn of(&self, bindings: &Cache<LocationBinding>) -> Arc<BTreeSet<String>> {
        let mut known = self.known();
        let cities = known.get_or_insert_with(|| Arc::new(cities(&bindings.readable(""))));
        Arc::clone(cities)
    }
}

/// Returns the cities of all bindings whose condition Available is not False. A binding whose condition is Unknown or
/// missing has not been checked yet, and counts as available (docs/concepts/milo.md#locations-and-networks).
fn cities(bindings: &[Arc<LocationBinding>]) -> BTreeSet<String> {
    let usable = |binding: &&Arc<LocationBinding>| {
        let status = binding.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice());
        !condition::find(conditions.unwrap_or_default(), AVAILABLE).is_some_and(Condition::is_false)
    };
    let codes = bindings
        .iter()
        .filter(usable)
        .filter_map(|binding| binding.spec.topology.get(CITY_CODE));
    codes.filter(|code| !code.is_empty()).cloned().collect()
}

/// The kinds of a project that cannot be listed or watched at present.
struct FailingKinds {
    /// The number of these kinds.
    failing: watch::Sender<usize>,
    metrics: Metrics,
}

impl FailingKinds {
    /// Counts a kind while its cache is not current.
    fn count<K: Resource<DynamicType = ()>>(
        &self,
        cache: &Cache<K>,
    ) -> impl Future<Output = ()> + Send + 'static + use<K> {
        let labels = KindLabels {
            kind: K::kind(&()).into_owned(),
        };
        let gauge = self
            .metrics
            .projects_failing_kinds
            .get_or_create_owned(&labels);
        let (failing, mut sync_state) = (self.failing.clone(), cache.sync_state());
        async move {
            loop {
                let counted = FailingKind::new(&failing, &gauge);
                if sync_state.wait_for(SyncState::is_current).await.is_err() {
                    return;
                }
                drop(counted);
                let fails = |sync_state: &SyncState| !sync_state.is_current();
                if sync_state.wait_for(fails).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Counts a kind until it is dropped.
struct FailingKind {
    failing: watch::Sender<usize>,
    _counted: Counted,
}

impl FailingKind {
    fn new(failing: &watch::Sender<usize>, gauge: &Gauge) -> Self {
        failing.send_modify(|failing| *failing += 1);
        Self {
            failing: failing.clone(),
            _counted: Counted::new(gauge),
        }
    }
}

impl Drop for FailingKind {
    fn drop(&mut self) {
        self.failing.send_modify(|failing| *failing -= 1);
    }
}

/// Counts a project in a gauge while it has kinds that fail.
async fn count_project(mut kinds: watch::Receiver<usize>, gauge: Gauge) {
    while kinds.wait_for(|kinds| *kinds > 0).await.is_ok() {
        let _counted = Counted::new(&gauge);
        if kinds.wait_for(|kinds| *kinds == 0).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(city: &str, status: &Value) -> Arc<LocationBinding> {
        let binding = json!({
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "LocationBinding",
            "metadata": {"name": "l"},
            "spec": {"locationRef": {"name": "l"}, "topology": {"topology.datum.net/city-code": city}},
            "status": status,
        });
        Arc::new(serde_json::from_value(binding).unwrap())
    }

    fn available(status: &str) -> Value {
        json!({"conditions": [{
            "type": "Available", "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})
    }

    #[test]
    fn a_city_counts_unless_all_its_bindings_are_unavailable() {
        let elsewhere = LocationBinding::new("x", api::networking::LocationBindingSpec::default());
        let bindings = [
            binding("LHR", &available("True")),
            binding("DFW", &Value::Null),
            binding("AMS", &available("Unknown")),
            binding("ORD", &available("False")),
            binding("SJC", &available("False")),
            binding("SJC", &available("True")),
            binding("", &available("True")),
            Arc::new(elsewhere),
        ];
        let cities: Vec<_> = cities(&bindings).into_iter().collect();
        assert_eq!(cities, ["AMS", "DFW", "LHR", "SJC"]);
    }
}
