//! How caches, queues and controllers are put together.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all, pending};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use multicluster::cache::{Change, ListLimiter, Reflector, SyncState};
use multicluster::queue::{Key, Limits, Workers};
use multicluster::{Cache, Outcome, Tasks};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::{Clock, ReconcileContext, ReconcileError};

/// When to look again at what a project may have, where it is not known whether there is one.
const NOT_KNOWN: Duration = Duration::from_secs(10);

/// Brings one key to what is wanted of it.
pub(crate) trait Controller: Send + Sync + 'static {
    /// Names the controller in field managers, logs and metrics.
    const NAME: &'static str;
    /// What the controller's queue holds.
    type Key: Key;
    /// How much of it may be under way.
    const LIMITS: Limits = Limits::DEFAULT;

    /// Observes, plans and executes. What fails is tried again.
    fn reconcile(
        &self,
        context: &ReconcileContext,
        key: Self::Key,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;
}

/// A handler that hears of each version of an object by itself: of one that changes, of the former one and the current one.
pub(crate) fn for_each_version(handler: impl Fn(&ObjectMeta)) -> impl Fn(Change<'_>) {
    move |change| change.versions().for_each(&handler)
}

/// The caches that must be filled before anything is decided.
#[derive(Clone, Debug, Default)]
pub struct Synced(Vec<(String, watch::Receiver<bool>)>);

impl Synced {
    /// The caches that are not filled yet.
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

/// What is watched of a plane that comes and goes. It ends with the future.
pub(crate) struct Watches {
    client: Client,
    pace: ListLimiter,
    following: Vec<BoxFuture<'static, ()>>,
    /// Each ends when what it waits for has been listed, or cannot be.
    listed: Vec<BoxFuture<'static, ()>>,
}

impl Watches {
    /// Of the plane of this client.
    pub(crate) fn new(client: &Client, pace: &ListLimiter) -> Self {
        Self {
            client: client.clone(),
            pace: pace.clone(),
            following: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Watches all objects of a kind.
    pub(crate) fn follow<K>(&mut self, reflector: Reflector<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let synced = reflector.cache().synced();
        self.begin(reflector, wait_for(synced, |synced| *synced));
    }

    /// Watches all objects of a kind without which much can be done: where it cannot be listed nothing waits for it.
    pub(crate) fn follow_if_served<K>(&mut self, reflector: Reflector<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let freshness = reflector.cache().sync_state();
        let answered = |freshness: &SyncState| *freshness != SyncState::Listing;
        self.begin(reflector, wait_for(freshness, answered));
    }

    fn begin<K>(
        &mut self,
        reflector: Reflector<K>,
        listed: impl Future<Output = ()> + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (client, pace) = (self.client.clone(), self.pace.beside());
        self.following.push(reflector.run(client, pace).boxed());
        self.listed.push(listed.boxed());
    }

    /// Watches for ever. Once everything has been listed that can be, `enter` is called; what it gives is kept to the end.
    pub(crate) async fn run<T>(self, enter: impl FnOnce() -> T) {
        let entered = async {
            join_all(self.listed).await;
            let _entered = enter();
            pending::<()>().await;
        };
        tokio::join!(join_all(self.following), entered);
    }
}

/// Waits until this is so. A reflector that has ended tells nothing any more; the process, or the project, ends then.
async fn wait_for<T>(mut told: watch::Receiver<T>, is_so: impl FnMut(&T) -> bool) {
    if told.wait_for(is_so).await.is_err() {
        pending::<()>().await;
    }
}

/// Waits until everything has been listed, or the API server has refused to.
async fn until_known(
    what: &str,
    without: &str,
    mut freshness: watch::Receiver<SyncState>,
    known: watch::Sender<bool>,
) {
    let is_known = |freshness: &SyncState| freshness.is_current() || freshness.is_refused();
    let Ok(freshness) = freshness.wait_for(is_known).await else {
        return;
    };
    if let Some(problem) = freshness.problem() {
        warn!(problem, "{what} cannot be watched: {without}");
    }
    known.send_replace(true);
}

/// Starts what follows one plane and works on it.
pub(crate) struct Wiring<'a> {
    tasks: &'a Tasks,
    clock: Clock,
    synced: Synced,
    pace: ListLimiter,
}

impl<'a> Wiring<'a> {
    pub(crate) fn new(tasks: &'a Tasks, clock: Clock) -> Self {
        Self {
            tasks,
            clock,
            synced: Synced::default(),
            pace: ListLimiter::default(),
        }
    }

    /// Watches all objects of a kind, without which nothing is decided. `what` names them in readiness and logs.
    pub(crate) fn follow<K>(&mut self, what: &'static str, reflector: Reflector<K>, client: Client)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let cache: Cache<K> = reflector.cache();
        self.synced.0.push((what.to_owned(), cache.synced()));
        let pace = self.pace.beside();
        self.spawn(what, reflector.run(client, pace));
    }

    /// The same of a kind that controllers can do without, where the API server does not serve it or forbids to watch it:
    /// then they begin without it, and the log says once what that means.
    pub(crate) fn follow_if_served<K>(
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
        self.follow_until_known(what, without, reflector, client, known);
    }

    /// The same of a kind that is only reported on: nothing waits until it is listed.
    pub(crate) fn follow_beside<K>(
        &mut self,
        what: &'static str,
        without: &'static str,
        reflector: Reflector<K>,
        client: Client,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let known = watch::Sender::new(false);
        self.follow_until_known(what, without, reflector, client, known);
    }

    fn follow_until_known<K>(
        &mut self,
        what: &'static str,
        without: &'static str,
        reflector: Reflector<K>,
        client: Client,
        known: watch::Sender<bool>,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let freshness = reflector.cache().sync_state();
        let pace = self.pace.beside();
        self.spawn(what, async move {
            let known = until_known(what, without, freshness, known);
            tokio::join!(reflector.run(client, pace), known);
        });
    }

    fn spawn(&self, what: &'static str, following: impl Future<Output = ()> + Send + 'static) {
        let stop = self.tasks.stop();
        self.tasks.spawn(what, async move {
            stop.run_until_cancelled(following).await;
            Ok::<_, std::convert::Infallible>(())
        });
    }

    /// When to begin to write: once all caches are filled and the process may.
    pub(crate) fn ready_to_write(&self, may_write: CancellationToken) -> CancellationToken {
        let ready = CancellationToken::new();
        let (synced, stop) = (self.synced.clone(), self.tasks.stop());
        self.tasks.spawn("start of the controllers", {
            let ready = ready.clone();
            async move {
                let both = async { tokio::join!(synced.all(), may_write.cancelled()) };
                if stop.run_until_cancelled(both).await.is_some() {
                    ready.cancel();
                }
                stop.cancelled().await;
                Ok::<_, std::convert::Infallible>(())
            }
        });
        ready
    }

    /// Works off a queue.
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
                        // When it is, everything of it is looked at.
                        Err(ReconcileError::NotEngaged(_)) => Ok(Outcome::Gone),
                        // Discovery has reported why.
                        Err(ReconcileError::NotKnown(_)) => Ok(Outcome::Again(NOT_KNOWN)),
                        result => result,
                    }
                }
            };
            workers.run(C::LIMITS, clock, ready, stop, reconcile).await
        });
    }

    /// The caches that are followed.
    pub(crate) fn synced(self) -> Synced {
        self.synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_controllers_can_do_without_is_waited_for_until_it_is_listed_or_refused() {
        let problem = String::new;
        for (freshness, is_enough) in [
            (SyncState::Listing, false),
            (SyncState::Failing { problem: problem() }, false),
            (SyncState::Forbidden { problem: problem() }, true),
            (SyncState::NotServed { problem: problem() }, true),
            (SyncState::Current, true),
        ] {
            let (_plane, watched) = watch::channel(freshness.clone());
            let (known, is_known) = watch::channel(false);
            let waiting = until_known("Clusters", "nothing", watched, known);
            let none_left = tokio::time::timeout(Duration::from_millis(20), waiting);
            assert_eq!(none_left.await.is_ok(), is_enough, "{freshness:?}");
            assert_eq!(*is_known.borrow(), is_enough, "{freshness:?}");
        }
    }
}
