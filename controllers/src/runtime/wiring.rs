//! Connects caches, queues and controllers, and starts their tasks.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, pending};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use multicluster::cache::{Change, ListLimiter, Reflector, SyncState};
use multicluster::clock::Clock;
use multicluster::queue::{Key, Limits, ReconcileContext, Workers};
use multicluster::{Cache, Metrics, Outcome, Tasks};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::error::ReconcileError;

/// Time for which the first list of a kind may hold up a project.
const ANSWERED: Duration = Duration::from_mins(1);
/// How long to wait before a key is tried again while it is unknown whether its project exists. The registry of
/// projects logs the reason.
const NOT_KNOWN: Duration = Duration::from_secs(10);
/// How often the log names the caches for which the controllers of the leader wait.
const STALE_LOGGED: Duration = Duration::from_mins(1);
/// How long an optional kind may fail to be listed before controllers start without it, or with what the cache of a new
/// leader had before. A first list that takes long, but does not fail, is awaited.
const OPTIONAL: Duration = Duration::from_secs(30);

/// Brings the objects of one key to their desired state.
pub(crate) trait Controller: Send + Sync + 'static {
    /// The name of the controller in field managers, logs and metrics.
    const NAME: &'static str;
    /// The keys of the controller's queue.
    type Key: Key;
    /// How many reconciliations may run at a time.
    const LIMITS: Limits = Limits::DEFAULT;

    /// Observes, plans and executes. If it fails, the queue tries the key again with backoff.
    fn reconcile(
        &self,
        context: &ReconcileContext,
        key: Self::Key,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;
}

/// Returns a handler of changes. It calls `handler` with each version of the object, the former version first.
pub(crate) fn for_each_version(handler: impl Fn(&ObjectMeta)) -> impl Fn(Change<'_>) {
    move |change| change.versions().for_each(&handler)
}

/// The caches that must be filled before controllers make decisions.
#[derive(Clone, Debug, Default)]
pub struct Synced(Vec<(String, watch::Receiver<bool>)>);

impl Synced {
    /// Returns the names of the caches that are not filled yet.
    pub fn pending(&self) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(_, synced)| !*synced.borrow())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Waits until all caches are filled.
    async fn all(self) {
        for (_, synced) in self.0 {
            wait_for(synced, |synced| *synced).await;
        }
    }
}

/// The watches of a project's plane. They end when the future of [`Watches::run`] is dropped.
pub(crate) struct Watches {
    client: Client,
    lists: ListLimiter,
    running: Vec<BoxFuture<'static, ()>>,
    /// Each future ends when its kind has been listed, or when a list has failed.
    answered: Vec<BoxFuture<'static, ()>>,
}

impl Watches {
    /// Makes an empty set of watches on the plane of this client.
    pub(crate) fn new(client: &Client, lists: &ListLimiter) -> Self {
        Self {
            client: client.clone(),
            lists: lists.clone(),
            running: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Watches all objects of a kind. If the kind cannot be listed, the project is served without it.
    pub(crate) fn watch<K>(&mut self, reflector: Reflector<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let sync_state = reflector.cache().sync_state();
        let answered = |sync_state: &SyncState| *sync_state != SyncState::Listing;
        self.answered.push(wait_for(sync_state, answered).boxed());
        let (client, lists) = (self.client.clone(), self.lists.for_another_cache());
        self.running.push(reflector.run(client, lists).boxed());
    }

    /// Watches until the future is dropped. Calls `on_answered` once the list of every kind has succeeded or failed, but
    /// after [`ANSWERED`] at the latest: a slow list of one kind must not hold the others up. Keeps the result of
    /// `on_answered` until the end.
    pub(crate) async fn run<T>(self, on_answered: impl FnOnce() -> T) {
        let answered = async {
            // A list that goes on is no error. Its kind is not used until it ends.
            let _ = timeout(ANSWERED, join_all(self.answered)).await;
            let _kept = on_answered();
            pending::<()>().await;
        };
        tokio::join!(join_all(self.running), answered);
    }
}

/// Waits until the condition is true. Never returns if the reflector has ended. A reflector ends only when the process
/// or the project ends, so the caller no longer needs the result.
async fn wait_for<T>(mut receiver: watch::Receiver<T>, condition: impl FnMut(&T) -> bool) {
    if receiver.wait_for(condition).await.is_err() {
        pending::<()>().await;
    }
}

fn is_known(sync_state: &SyncState) -> bool {
    sync_state.is_current() || sync_state.is_refused()
}

/// Waits until an optional kind has been listed, or the API server has refused to list it, or the list has failed for
/// [`OPTIONAL`]. Then sets `known`.
async fn until_known(
    what: &str,
    without: &str,
    mut sync_state: watch::Receiver<SyncState>,
    known: watch::Sender<bool>,
) {
    let has_failed = |sync_state: &SyncState| *sync_state != SyncState::Listing;
    if sync_state.wait_for(has_failed).await.is_err() {
        return;
    }
    // The time limit has passed: the problem is logged, and the controllers start.
    if let Ok(Err(_)) = timeout(OPTIONAL, sync_state.wait_for(is_known)).await {
        return;
    }
    if let Some(problem) = sync_state.borrow().problem() {
        warn!(problem, "{what} cannot be watched: {without}");
    }
    known.send_replace(true);
}

/// Waits until all these caches are current. Meanwhile the leader writes nothing: a metric shows it, and the log names
/// the caches.
async fn until_current(caches: &[(&'static str, watch::Receiver<SyncState>)], metrics: &Metrics) {
    loop {
        let mut stale = caches
            .iter()
            .filter(|(_, state)| !state.borrow().is_current());
        let Some((what, first)) = stale.next() else {
            metrics.set_controllers_waiting(false);
            return;
        };
        metrics.set_controllers_waiting(true);
        let current = wait_for(first.clone(), SyncState::is_current);
        if timeout(STALE_LOGGED, current).await.is_err() {
            let others: Vec<_> = stale.map(|(what, _)| *what).collect();
            warn!(
                what,
                ?others,
                "nothing is written, because this kind cannot be listed or watched at present"
            );
        }
    }
}

/// The cache of an optional kind.
#[derive(Clone)]
struct OptionalCache {
    /// The name of the kind in logs.
    what: &'static str,
    /// Whether the kind was listed once.
    listed: watch::Receiver<bool>,
    sync_state: watch::Receiver<SyncState>,
}

impl OptionalCache {
    /// Returns whether the objects of the cache may be out of date.
    fn is_stale(&self) -> bool {
        *self.listed.borrow() && !is_known(&self.sync_state.borrow())
    }
}

/// Waits until none of these caches is stale, but for [`OPTIONAL`] at most. A kind that was never listed has been waited
/// for before.
async fn until_not_stale(caches: &[OptionalCache]) {
    let stale = caches.iter().filter(|it| it.is_stale());
    let known = stale.map(|it| wait_for(it.sync_state.clone(), is_known));
    if timeout(OPTIONAL, join_all(known)).await.is_err() {
        let stale = caches.iter().filter(|it| it.is_stale());
        let stale: Vec<_> = stale.map(|it| it.what).collect();
        warn!(
            ?stale,
            "these kinds cannot be listed or watched at present; what is known of them may be old"
        );
    }
}

/// Starts the watches and the controllers of one plane.
pub(crate) struct Wiring<'a> {
    tasks: &'a Tasks,
    clock: Clock,
    synced: Synced,
    /// The states of the caches of all required kinds, with their names in logs.
    required: Vec<(&'static str, watch::Receiver<SyncState>)>,
    optional: Vec<OptionalCache>,
    lists: ListLimiter,
}

impl<'a> Wiring<'a> {
    pub(crate) fn new(tasks: &'a Tasks, clock: Clock) -> Self {
        Self {
            tasks,
            clock,
            synced: Synced::default(),
            required: Vec::new(),
            optional: Vec::new(),
            lists: ListLimiter::default(),
        }
    }

    /// Watches all objects of a required kind. Controllers start when the kind has been listed. `what` is the name of
    /// the kind in readiness and logs.
    pub(crate) fn watch<K>(&mut self, what: &'static str, reflector: Reflector<K>, client: Client)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let cache: Cache<K> = reflector.cache();
        self.synced.0.push((what.to_owned(), cache.synced()));
        self.required.push((what, cache.sync_state()));
        let lists = self.lists.for_another_cache();
        self.spawn(what, reflector.run(client, lists));
    }

    /// Watches all objects of an optional kind. If the API server does not serve the kind or forbids the watch,
    /// controllers start without the kind. The consequence (`without`) is logged once.
    pub(crate) fn watch_if_served<K>(
        &mut self,
        what: &'static str,
        without: &'static str,
        reflector: Reflector<K>,
        client: Client,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (known, receiver) = watch::channel(false);
        self.synced.0.push((what.to_owned(), receiver));
        let cache = reflector.cache();
        self.optional.push(OptionalCache {
            what,
            listed: cache.synced(),
            sync_state: cache.sync_state(),
        });
        self.watch_until_known(what, without, reflector, client, known);
    }

    /// Watches all objects of a kind without which the other controllers work. They do not wait for its first list.
    pub(crate) fn watch_in_background<K>(
        &mut self,
        what: &'static str,
        without: &'static str,
        reflector: Reflector<K>,
        client: Client,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let known = watch::Sender::new(false);
        self.watch_until_known(what, without, reflector, client, known);
    }

    fn watch_until_known<K>(
        &mut self,
        what: &'static str,
        without: &'static str,
        reflector: Reflector<K>,
        client: Client,
        known: watch::Sender<bool>,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let sync_state = reflector.cache().sync_state();
        let lists = self.lists.for_another_cache();
        self.spawn(what, async move {
            let known = until_known(what, without, sync_state, known);
            tokio::join!(reflector.run(client, lists), known);
        });
    }

    fn spawn(&self, what: &'static str, watch: impl Future<Output = ()> + Send + 'static) {
        let stop = self.tasks.stop();
        self.tasks.spawn(what, async move {
            stop.run_until_cancelled(watch).await;
            Ok::<_, std::convert::Infallible>(())
        });
    }

    /// Returns a token that is cancelled once all caches are filled, the process may write, and the caches of the
    /// required kinds are current. A process can wait for the lease for long, and what its caches say may then be old.
    /// The wait for the caches of optional kinds has a time limit. Then calls `wake_all`, which adds the keys of all
    /// objects, because the queues have dropped all earlier keys.
    pub(crate) fn ready_to_write(
        &self,
        may_write: CancellationToken,
        metrics: &Metrics,
        wake_all: impl FnOnce() + Send + 'static,
    ) -> CancellationToken {
        let ready = CancellationToken::new();
        let (synced, stop) = (self.synced.clone(), self.tasks.stop());
        let (required, optional) = (self.required.clone(), self.optional.clone());
        let metrics = metrics.clone();
        self.tasks.spawn("start of the controllers", {
            let ready = ready.clone();
            async move {
                let current = async {
                    tokio::join!(synced.all(), may_write.cancelled());
                    until_not_stale(&optional).await;
                    until_current(&required, &metrics).await;
                };
                if stop.run_until_cancelled(current).await.is_some() {
                    ready.cancel();
                    wake_all();
                }
                stop.cancelled().await;
                Ok::<_, std::convert::Infallible>(())
            }
        });
        ready
    }

    /// Runs a controller on the keys of its queue.
    pub(crate) fn run<C: Controller>(
        &self,
        workers: Workers<C::Key>,
        ready: &CancellationToken,
        controller: C,
    ) {
        let controller = Arc::new(controller);
        let (ready, stop, clock) = (ready.clone(), self.tasks.stop(), self.clock);
        self.tasks.spawn(C::NAME, async move {
            let reconcile = move |key, context: Arc<ReconcileContext>| {
                let controller = Arc::clone(&controller);
                async move {
                    match controller.reconcile(&context, key).await {
                        // When the project is served, and when the kind has been listed, all objects of the project
                        // are reconciled.
                        Err(ReconcileError::NotEngaged(_) | ReconcileError::NotListed { .. }) => {
                            Ok(Outcome::Gone)
                        }
                        // The registry of projects has logged the reason.
                        Err(ReconcileError::NotKnown(_)) => Ok(Outcome::Again(NOT_KNOWN)),
                        result => result,
                    }
                }
            };
            workers.run(C::LIMITS, clock, ready, stop, reconcile).await
        });
    }

    /// Returns the caches that are watched.
    pub(crate) fn synced(self) -> Synced {
        self.synced
    }
}

#[cfg(test)]
mod tests {
    use apiserver::ApiServer;
    use futures::future::ready;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_optional_kind_is_known_once_it_is_listed_or_refused_or_has_failed_for_long() {
        let problem = String::new;
        let (at_once, never) = (Some(Duration::ZERO), None);
        for (sync_state, expected) in [
            (SyncState::Listing, never),
            (SyncState::Failing { problem: problem() }, Some(OPTIONAL)),
            (SyncState::Forbidden { problem: problem() }, at_once),
            (SyncState::NotServed { problem: problem() }, at_once),
            (SyncState::Current, at_once),
        ] {
            let (_plane, watched) = watch::channel(sync_state.clone());
            let (known, is_known) = watch::channel(false);
            let begin = Instant::now();
            let waiting = until_known("Clusters", "nothing", watched, known);
            let ended = timeout(Duration::from_hours(1), waiting).await.is_ok();
            let after = ended.then(|| begin.elapsed());
            assert_eq!(after, expected, "{sync_state:?}");
            assert_eq!(*is_known.borrow(), expected.is_some(), "{sync_state:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_list_holds_a_project_up_for_a_minute() {
        let (served, is_served) = watch::channel(false);
        let watches = Watches {
            client: ApiServer::new().client(),
            lists: ListLimiter::default(),
            running: Vec::new(),
            answered: vec![pending().boxed(), ready(()).boxed()],
        };
        let begin = Instant::now();
        let served = tokio::spawn(watches.run(move || served.send_replace(true)));
        wait_for(is_served, |is_served| *is_served).await;
        assert_eq!(begin.elapsed(), ANSWERED);
        served.abort();
    }
}
