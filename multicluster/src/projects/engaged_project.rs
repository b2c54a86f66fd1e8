//! One project that is used.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::ProjectName;
use api::condition::{self, Condition};
use api::networking::{AVAILABLE, CITY_CODE, LocationBinding};
use kube::Client;
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use crate::cache::{Cache, ListLimiter, Reflector, SyncState};
use crate::metrics::{Counted, Metrics};

/// How all projects together are named in metrics: there may be thousands.
const PROJECTS: &str = "projects";
/// Requests of users that one project has under way at a time, at most.
const REQUESTS: usize = 256;
/// For how long nothing else is asked of an API server that does not list LocationBindings.
const UNANSWERED: Duration = Duration::from_mins(1);

/// A project that is used: how its API server is reached, and what is known of it.
pub struct EngagedProject {
    name: ProjectName,
    client: Client,
    bindings: Cache<LocationBinding>,
    sync_state: watch::Receiver<SyncState>,
    lists: ListLimiter,
    cities: Arc<CityCache>,
    bindings_changed: watch::Sender<()>,
    suspended: watch::Sender<bool>,
    requests: Semaphore,
}

/// The LocationBindings of a project are not known as they are now. Each message is one that a user can be shown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotCurrent {
    /// The project has been engaged a moment ago, or its API server does not answer.
    #[error("LocationBindings of project {0} have not been listed yet")]
    Listing(ProjectName),
    /// The API server of the project refuses them, or cannot be reached.
    #[error("LocationBindings of project {project} cannot be listed: {problem}")]
    Failing {
        /// The project.
        project: ProjectName,
        /// What its API server said, or why it cannot be asked.
        problem: String,
    },
}

impl EngagedProject {
    /// The project, and the task that keeps what is known of it current, for ever.
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
        let failing = count_failing(bindings.sync_state(), metrics.projects_failing.clone());
        let project = Self {
            name,
            client: client.clone(),
            sync_state: bindings.sync_state(),
            bindings,
            lists: lists.clone(),
            cities,
            bindings_changed,
            suspended: watch::Sender::new(false),
            requests: Semaphore::new(REQUESTS),
        };
        let task = async move {
            tokio::join!(reflector.run(client, lists), failing);
        };
        (project, task)
    }

    /// The name of the project.
    pub fn name(&self) -> &ProjectName {
        &self.name
    }

    /// A client of the project's API server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A place for a request to the project's API server, among as many as one project may have under way: they take up
    /// memory for as long as it does not answer.
    pub async fn request_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.requests.acquire().await.ok()
    }

    /// The codes of the cities in which the project may run, sorted: those of all LocationBindings that do not say that
    /// they are not available. A binding that cannot be decoded names none.
    ///
    /// # Errors
    ///
    /// [`NotCurrent`] when the LocationBindings are not known as they are now.
    pub fn cities(&self) -> Result<Arc<BTreeSet<String>>, NotCurrent> {
        self.current()?;
        Ok(self.cities.of(&self.bindings))
    }

    /// The cities, as [`EngagedProject::cities`] has them, for a user who waits: where they are not known, the LocationBindings are
    /// listed again soon.
    ///
    /// # Errors
    ///
    /// [`NotCurrent`] when the LocationBindings are not known as they are now.
    pub fn cities_now(&self) -> Result<Arc<BTreeSet<String>>, NotCurrent> {
        self.cities().inspect_err(|_| self.lists.want())
    }

    /// Waits until [`EngagedProject::cities`] may say something else than when this was called.
    pub fn cities_change(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut bindings, mut sync_state) =
            (self.bindings_changed.subscribe(), self.sync_state.clone());
        sync_state.mark_unchanged();
        async move {
            // Neither ends before the project does.
            tokio::select! {
                _ = bindings.changed() => {}
                _ = sync_state.changed() => {}
            }
        }
    }

    pub(super) fn suspend(&self, is_suspended: bool) {
        self.suspended.send_replace(is_suspended);
    }

    /// Waits until the project is suspended, or is so no more: what it has refused it may take then.
    pub fn suspension_change(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut suspended = self.suspended.subscribe();
        async move {
            // It does not end before the project does.
            let _ = suspended.changed().await;
        }
    }

    /// The lists of a cache of the project.
    pub fn list_limiter(&self) -> ListLimiter {
        self.lists.beside()
    }

    /// Waits until the API server has answered, or might never: until then, who works on the project takes up no one's
    /// turn to list.
    pub(super) async fn answered(&self) {
        let mut sync_state = self.sync_state.clone();
        let answered = |sync_state: &SyncState| {
            matches!(sync_state, SyncState::Current | SyncState::NotServed { .. })
        };
        let _ = timeout(UNANSWERED, sync_state.wait_for(answered)).await;
    }

    /// Whether the LocationBindings are known as they are now.
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

/// The cities of a cache, computed when they are asked for after a change.
#[derive(Debug, Default)]
struct CityCache(Mutex<Option<Arc<BTreeSet<String>>>>);

impl CityCache {
    fn known(&self) -> MutexGuard<'_, Option<Arc<BTreeSet<String>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has changed.
    fn forget(&self) {
        *self.known() = None;
    }

    /// A change that comes meanwhile waits, so that it is not covered by what was read before.
    fn of(&self, bindings: &Cache<LocationBinding>) -> Arc<BTreeSet<String>> {
        let mut known = self.known();
        let cities = known.get_or_insert_with(|| Arc::new(cities(&bindings.readable(""))));
        Arc::clone(cities)
    }
}

/// The codes of the cities of all bindings that do not say that they are not available: one whose condition is Unknown or
/// missing has not been judged yet (platform.md 5.4).
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

/// Counts a project while it is not current.
async fn count_failing(mut sync_state: watch::Receiver<SyncState>, failing: Gauge) {
    loop {
        let counted = Counted::new(&failing);
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
    fn a_city_is_offered_unless_all_its_bindings_say_that_they_are_not_available() {
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
