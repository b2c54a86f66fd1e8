//! An API server in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tower::{BoxError, service_fn};

use crate::answer::{Answer, Disconnected};
use crate::faults::{Fault, Faults};
use crate::kinds::KindId;
use crate::log::{Counts, Logged, Verb};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::selector::Query;
use crate::state::{Backup, Event, Key, State, Stored};
use crate::text;

/// An API server in memory. All clones share one state.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    inner: Arc<ServerInner>,
}

/// Changes an object before it is stored.
type Amendment = fn(&mut Value);

#[derive(Debug, Default)]
struct ServerInner {
    state: Mutex<State>,
    unserved: Mutex<BTreeSet<KindId>>,
    /// The changes that this API server makes to written objects, by kind.
    amendments: Mutex<BTreeMap<KindId, Amendment>>,
    faults: Faults,
    counts: Counts,
    log: Mutex<Vec<Logged>>,
    interruptions: watch::Sender<Interruption>,
    watches: AtomicUsize,
}

/// The way in which watches are interrupted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Interruption {
    /// The connections break.
    #[default]
    Break,
    /// The watches end normally, as after their timeout.
    End,
}

/// Counts a watch while a client reads it.
#[derive(Debug)]
pub(crate) struct OpenWatch(Arc<ServerInner>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ApiServer {
    /// Creates an API server without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes dependents together with their owner. A kube-controller-manager deletes them after some delay. Here, a
    /// dependent is deleted when any of its owners is deleted.
    #[must_use]
    pub fn with_garbage_collection(self) -> Self {
        lock(&self.inner.state).collects_garbage = true;
        self
    }

    /// Uses this clock for the timestamps of objects.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> Timestamp) -> Self {
        lock(&self.inner.state).clock = clock;
        self
    }

    /// Returns a client of this API server. The client uses no socket. Its requests are logged.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let request = Request::new(http::Request::from_parts(parts, body), "");
                server.inner.counts.add(request.verb);
                lock(&server.inner.log).push(request.logged());
                let answer = server.answer_with_faults(request).await?;
                Ok::<_, BoxError>(answer.response)
            }
        });
        Client::new(service, "default")
    }

    /// Returns a client of several API servers behind one address. They answer its requests in turn.
    pub fn client_in_turn(servers: &[Self]) -> Client {
        let clients: Vec<_> = servers.iter().map(Self::client).collect();
        let turns = AtomicUsize::new(0);
        let service = service_fn(move |request: http::Request<Body>| {
            let turn = turns.fetch_add(1, Ordering::Relaxed) % clients.len();
            let client = clients[turn].clone();
            async move { client.send(request).await.map_err(BoxError::from) }
        });
        Client::new(service, "default")
    }

    /// Answers a request. `prefix` is the part of the path that leads to this API server.
    ///
    /// # Errors
    ///
    /// [`Disconnected`], when a fault breaks the connection.
    pub async fn answer(
        &self,
        request: http::Request<Bytes>,
        prefix: &str,
    ) -> Result<Answer, Disconnected> {
        let request = Request::new(request, prefix);
        self.inner.counts.add(request.verb);
        self.answer_with_faults(request).await
    }

    /// Adds a fault for later requests. Earlier faults have precedence.
    pub fn fail(&self, fault: Fault) {
        self.inner.faults.add(fault);
    }

    /// Removes all faults. A request that already hangs stays without an answer.
    pub fn heal(&self) {
        self.inner.faults.clear();
    }

    /// Stops serving a kind. Its path becomes unknown, and its watches end.
    pub fn stop_serving<K: kube::Resource<DynamicType = ()>>(&self) {
        lock(&self.inner.unserved).insert(KindId::of::<K>());
        self.end_watches();
    }

    /// Serves a kind again.
    pub fn serve_again<K: kube::Resource<DynamicType = ()>>(&self) {
        lock(&self.inner.unserved).remove(&KindId::of::<K>());
    }

    /// Changes every object of a kind that a client writes, as the defaults and the pruning of another CRD do.
    pub fn amend<K: kube::Resource<DynamicType = ()>>(&self, amendment: Amendment) {
        lock(&self.inner.amendments).insert(KindId::of::<K>(), amendment);
    }

    pub(crate) fn amended(&self, kind: KindId, mut object: Value) -> Value {
        if let Some(amend) = lock(&self.inner.amendments).get(&kind) {
            amend(&mut object);
        }
        object
    }

    /// Breaks the connections of all watches.
    pub fn interrupt(&self) {
        self.inner.interruptions.send_replace(Interruption::Break);
    }

    /// Ends all watches normally, as API servers do from time to time.
    pub fn end_watches(&self) {
        self.inner.interruptions.send_replace(Interruption::End);
    }

    /// Returns the number of watches that clients currently read.
    pub fn watches(&self) -> usize {
        self.inner.watches.load(Ordering::Relaxed)
    }

    /// Returns the number of received requests with this verb.
    pub fn count_requests(&self, verb: Verb) -> usize {
        self.inner.counts.of(verb)
    }

    /// Returns the number of client requests since [`Self::clear_log`].
    pub fn requests(&self) -> usize {
        lock(&self.inner.log).len()
    }

    /// Returns the client requests since [`Self::clear_log`], the oldest first.
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.inner.log).clone()
    }

    /// Clears the log of requests.
    pub fn clear_log(&self) {
        lock(&self.inner.log).clear();
    }

    /// Returns the writes of clients since [`Self::clear_log`] in short form. Rejected writes are included.
    pub fn writes(&self) -> Vec<String> {
        let log = lock(&self.inner.log);
        let writes = log.iter().filter(|request| request.verb.is_write());
        writes.map(ToString::to_string).collect()
    }

    /// Stores an object without any checks. An existing object is replaced. A missing UID or creation time is added.
    ///
    /// # Panics
    ///
    /// When the API server does not know the object's kind, or the object has no name.
    pub fn put(&self, object: Value) {
        let kind = KindId::named(text(&object, "/kind"));
        let namespace = text(&object, "/metadata/namespace");
        let name = text(&object, "/metadata/name");
        assert!(!name.is_empty(), "an object needs a name: {object}");
        let key = (namespace.to_owned(), name.to_owned());
        self.state().put(kind, &key, object);
    }

    /// Stores an object under this name. An existing object is not changed.
    pub fn seed(&self, kind: KindId, namespace: &str, name: &str, object: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        if state.get(kind, &key).is_none() {
            state.put(kind, &key, object);
        }
    }

    /// Changes an object without any checks, as if another client had written it.
    ///
    /// # Panics
    ///
    /// When there is no such object.
    pub fn modify<K: kube::Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let key = (namespace.to_owned(), name.to_owned());
        let kind = KindId::of::<K>();
        let mut object = self.stored(kind, &key).unwrap().value();
        change(&mut object);
        self.state().put(kind, &key, object);
    }

    /// Removes an object immediately, even if it has finalizers.
    ///
    /// # Panics
    ///
    /// When there is no such object.
    pub fn remove<K: kube::Resource<DynamicType = ()>>(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let kind = KindId::of::<K>();
        let mut state = self.state();
        let object = state.get(kind, &key).unwrap().value();
        state.remove(kind, &key, object);
    }

    /// Returns an object, or `None` if there is no object of this name.
    ///
    /// # Panics
    ///
    /// When the object cannot be decoded.
    pub fn get<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let key = (namespace.to_owned(), name.to_owned());
        let stored = self.stored(KindId::of::<K>(), &key)?;
        Some(serde_json::from_slice(&stored.body).unwrap())
    }

    /// Returns the stored version of an object, or `None` if there is no object with this key.
    pub fn stored(&self, kind: KindId, key: &Key) -> Option<Arc<Stored>> {
        self.state().get(kind, key).cloned()
    }

    /// Returns the number of objects of a kind.
    pub fn count(&self, kind: KindId) -> usize {
        self.state().collection(kind).objects.len()
    }

    /// Returns the namespaces and names of the objects of a kind.
    pub fn keys(&self, kind: KindId) -> Vec<Key> {
        let state = self.state();
        state.collection(kind).objects.keys().cloned().collect()
    }

    /// Returns a snapshot of the current state.
    pub fn backup(&self) -> Backup {
        self.state().backup()
    }

    /// Restores a snapshot and breaks all connections, as a restore of etcd does.
    pub fn restore(&self, backup: &Backup) {
        self.interrupt();
        self.state().restore(backup);
    }

    /// Drops all events. Watches and lists that continue from an older version then fail as expired.
    pub fn compact(&self) {
        self.state().compact();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    pub(crate) fn serves(&self, kind: KindId) -> bool {
        !lock(&self.inner.unserved).contains(&kind)
    }

    pub(crate) fn interruptions(&self) -> watch::Receiver<Interruption> {
        self.inner.interruptions.subscribe()
    }

    pub(crate) fn open_watch(&self) -> OpenWatch {
        self.inner.watches.fetch_add(1, Ordering::Relaxed);
        OpenWatch(Arc::clone(&self.inner))
    }

    pub(crate) fn changes(&self, kind: KindId) -> watch::Receiver<u64> {
        self.state().collection(kind).changed.subscribe()
    }

    pub(crate) fn since(&self, kind: KindId, version: u64) -> Result<(Vec<Event>, u64), Refusal> {
        self.state().since(kind, version)
    }

    pub(crate) fn check_token(&self, kind: KindId, version: u64) -> Result<(), Refusal> {
        let state = self.state();
        match version < state.collection(kind).forgotten {
            true => Err(Refusal::expired_list()),
            false => Ok(()),
        }
    }

    pub(crate) fn page(
        &self,
        query: &Query,
        at: Option<u64>,
        after: Option<Key>,
        limit: usize,
    ) -> (Vec<Arc<Stored>>, bool, u64) {
        self.state().page(query, at, after, limit)
    }
}
