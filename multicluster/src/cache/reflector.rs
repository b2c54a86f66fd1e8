//! Keeps a cache current by a list and a watch.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use prometheus_client::metrics::gauge::Gauge;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::change::Change;
use super::entry::{CacheEntry, NamespacedName};
use super::handle::Cache;
use super::index::Index;
use super::list_limiter::{ListLimiter, ListPermit};
use super::sync_state::{self, Retry, SyncState};
use super::tolerant::Tolerant;
use super::values::Values;
use crate::connect::WATCH_SILENCE;
use crate::metrics::{CacheLabels, Metrics};

/// Objects in one page of a list (client-go's default).
const PAGE: u32 = 500;
/// Longest duration of a watch, and the maximum by which a watch is shorter, in seconds. kube's `watcher` allows
/// durations below 295 s.
const LONGEST_WATCH: u32 = 290;
const SPREAD: u32 = 120;
// A restored API server sends no events for a watch from a resource version that it has not reached yet. Such a watch
// must hit the silence limit before it ends normally. The silence limit causes a new list. A normal end would resume
// the watch from the same version.
const _: () = assert!(WATCH_SILENCE.as_secs() < (LONGEST_WATCH - SPREAD) as u64);
/// If the wait before a list is at most this long, an interrupted watch is resumed during the wait. If the resumed
/// watch reports no event during the wait, everything is listed again. After two interruptions in a row, the wait is
/// longer than this limit, so the watch is not resumed.
const RESUMED_FOR: Duration = Duration::from_secs(2);

type WatchEvents<K> = BoxStream<'static, watcher::Result<Event<Tolerant<K>>>>;

type Handler = Box<dyn Fn(Change<'_>) + Send + Sync>;

/// Keeps a [`Cache`] current, and calls handlers with each change. For a `PartialObjectMeta`, the API server sends only
/// metadata.
pub struct Reflector<K> {
    cache: Cache<K>,
    plane: String,
    handlers: Vec<Handler>,
    undecodable: Undecodables,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<NamespacedName, CacheEntry<K>>,
    /// The last error. It is stored so that the same error is logged only once.
    problem: Option<String>,
}

impl<K> Reflector<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Makes a reflector with an empty cache. `plane` names the API server in logs and metrics.
    pub fn new(plane: &str, metrics: &Metrics) -> Self {
        Self::of_many(plane, plane, metrics)
    }

    /// Makes a reflector of one of many planes. In metrics, these planes are counted together under the name `planes`.
    pub fn of_many(plane: &str, planes: &str, metrics: &Metrics) -> Self {
        Self {
            cache: Cache::default(),
            plane: plane.to_owned(),
            handlers: Vec::new(),
            undecodable: Undecodables::new::<K>(planes, metrics),
            listed: BTreeMap::new(),
            problem: None,
        }
    }

    /// Returns the cache.
    pub fn cache(&self) -> Cache<K> {
        self.cache.clone()
    }

    /// Adds an index by the values that `values` returns for an object.
    pub fn index(&self, values: fn(&K) -> Vec<String>) -> Index<K> {
        self.index_all(values, |_| Vec::new())
    }

    /// Adds an index that also finds objects that cannot be decoded. `of_undecodable` returns the values of such an
    /// object from its metadata.
    pub fn index_all(
        &self,
        values: fn(&K) -> Vec<String>,
        of_undecodable: fn(&ObjectMeta) -> Vec<String>,
    ) -> Index<K> {
        Index::new(self.cache(), Values::new(values, of_undecodable))
    }

    /// Calls `handler` for every object that is created, changed or deleted. The cache is changed before the call.
    /// `handler` must not block.
    pub fn on_change(&mut self, handler: impl Fn(Change<'_>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Lists and watches until the future is dropped. [`Cache::sync_state`] shows whether the cache is current. `lists`
    /// limits concurrent lists. Errors are retried with backoff, and the same error is logged once.
    ///
    /// A watch that ends normally is resumed from its last resource version. After an error, everything is listed
    /// again. Reason: an API server that was restored from an older snapshot accepts a resource version that it has not
    /// reached yet, or that it has issued twice. A watch from such a version misses changes.
    ///
    /// If only the connection broke, the watch is resumed immediately. The resumed watch is kept if it reports an event
    /// before the list is due. An event is required because kube's `watcher` does not report that a watch was accepted.
    pub async fn run(mut self, client: Client, lists: ListLimiter) {
        let api: Api<Tolerant<K>> = Api::all(client);
        let config = watcher::Config::default()
            .page_size(PAGE)
            .timeout(watch_seconds(&self.plane, &K::kind(&())));
        let mut retry = Retry::default();
        loop {
            let mut permit = lists.permit().await;
            let mut watch = Some(watcher(api.clone(), config.clone()).boxed());
            while let Some(mut events) = watch.take() {
                let failed = self.apply_events(&mut events, &mut permit, &mut retry, &lists);
                let Some(error) = failed.await else {
                    // A kube watcher never ends.
                    return;
                };
                permit.end();
                self.failed(SyncState::failed::<K>(&error));
                let wait = retry.after(&error);
                let is_resumed = wait <= RESUMED_FOR && sync_state::is_interruption(&error);
                watch = self
                    .wait(events, is_resumed, lists.wait(&mut permit, wait))
                    .await;
                if watch.is_some() {
                    self.succeeded(&mut retry, &lists, &mut permit);
                }
            }
        }
    }

    /// Applies events until an error, and returns the error.
    async fn apply_events(
        &mut self,
        events: &mut WatchEvents<K>,
        permit: &mut ListPermit,
        retry: &mut Retry,
        lists: &ListLimiter,
    ) -> Option<watcher::Error> {
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                () = permit.is_over() => continue,
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => return Some(error),
            };
            let listed = matches!(event, Event::InitDone);
            self.apply(event);
            if listed {
                permit.end();
                self.succeeded(retry, lists, permit);
            }
        }
    }

    /// Waits until the next list is due. If a resumed watch reports an event before that, returns this watch.
    async fn wait(
        &mut self,
        mut events: WatchEvents<K>,
        is_resumed: bool,
        wait: impl Future<Output = ()>,
    ) -> Option<WatchEvents<K>> {
        let mut wait = pin!(wait);
        if is_resumed {
            let event = tokio::select! {
                event = events.next() => event,
                () = wait.as_mut() => return None,
            };
            if let Some(Ok(event @ (Event::Apply(_) | Event::Delete(_)))) = event {
                self.apply(event);
                return Some(events);
            }
        }
        drop(events);
        wait.await;
        None
    }

    fn succeeded(&mut self, retry: &mut Retry, lists: &ListLimiter, permit: &mut ListPermit) {
        if retry.succeeded() {
            lists.note_recovered(permit);
        }
        self.problem = None;
        self.cache.inner.sync_state.send_replace(SyncState::Current);
    }

    fn failed(&mut self, sync_state: SyncState) {
        let problem = sync_state.problem();
        if self.problem.as_deref() != problem {
            warn!(plane = %self.plane, kind = %K::kind(&()), problem, "watch failed; retrying");
            self.problem = problem.map(str::to_owned);
        }
        self.cache.inner.sync_state.send_replace(sync_state);
    }

    pub(super) fn apply(&mut self, event: Event<Tolerant<K>>) {
        match event {
            Event::Init => {
                self.listed.clear();
                self.cache.inner.write().begin_list();
            }
            Event::InitApply(object) => {
                let entry = self.entry(object);
                self.listed.insert(entry.key(), entry);
            }
            Event::InitDone => {
                let listed = mem::take(&mut self.listed);
                self.replace(listed);
                self.cache.inner.synced.send_replace(true);
            }
            Event::Apply(object) => {
                let entry = self.entry(object);
                let former = self.cache.inner.write().insert(entry.clone());
                self.notify(former.as_ref(), Some(&entry));
                self.count_undecodable();
            }
            Event::Delete(object) => {
                let entry = self.entry(object);
                self.cache.inner.write().remove(&entry);
                self.notify(Some(&entry), None);
                self.count_undecodable();
            }
        }
    }

    /// Replaces the cache by a complete list. Calls the handlers for objects that differ, and for objects that were
    /// deleted while there was no watch.
    fn replace(&mut self, listed: BTreeMap<NamespacedName, CacheEntry<K>>) {
        let new = listed.clone();
        let mut former = self.cache.inner.write().replace(listed);
        for (key, entry) in &new {
            let former = former.remove(key);
            if !former
                .as_ref()
                .is_some_and(|former| former.is_same_as(entry))
            {
                self.notify(former.as_ref(), Some(entry));
            }
        }
        for entry in former.values() {
            self.notify(Some(entry), None);
        }
        self.count_undecodable();
    }

    fn notify(&self, former: Option<&CacheEntry<K>>, current: Option<&CacheEntry<K>>) {
        let change = Change {
            former: former.map(CacheEntry::metadata),
            current: current.map(CacheEntry::metadata),
        };
        for handler in &self.handlers {
            handler(change);
        }
    }

    fn entry(&self, object: Tolerant<K>) -> CacheEntry<K> {
        match object.0.0 {
            Ok(mut object) => {
                // No controller reads `managedFields`. In many objects this field needs more memory than all other
                // fields together.
                object.meta_mut().managed_fields = None;
                CacheEntry::Decoded(Arc::new(object))
            }
            Err(mut invalid) => {
                invalid.metadata.managed_fields = None;
                let ObjectMeta {
                    namespace, name, ..
                } = &invalid.metadata;
                warn!(plane = %self.plane, kind = %K::kind(&()), namespace, name, problem = invalid.error, "object cannot be decoded");
                CacheEntry::Undecodable(Arc::new(invalid))
            }
        }
    }

    fn count_undecodable(&mut self) {
        let count = self.cache.inner.read().undecodable;
        self.undecodable.set(count);
    }
}

/// Returns the duration of a watch in seconds, which is a few minutes. The duration depends on the plane and the kind.
/// Thousands of watches that began together therefore do not end together.
fn watch_seconds(plane: &str, kind: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    (plane, kind).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % u64::from(SPREAD)).unwrap_or_default();
    LONGEST_WATCH - share
}

/// The part of the gauge of undecodable objects that belongs to one cache.
struct Undecodables {
    gauge: Gauge,
    counted: i64,
}

impl Undecodables {
    fn new<K: Resource<DynamicType = ()>>(plane: &str, metrics: &Metrics) -> Self {
        let labels = CacheLabels {
            plane: plane.to_owned(),
            kind: K::kind(&()).into_owned(),
        };
        Self {
            gauge: metrics.undecodable.get_or_create_owned(&labels),
            counted: 0,
        }
    }

    fn set(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.gauge.inc_by(count - self.counted);
        self.counted = count;
    }
}

impl Drop for Undecodables {
    fn drop(&mut self) {
        self.set(0);
    }
}
