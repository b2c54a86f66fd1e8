//! Keeps a cache current by a list and a watch.

mod check;
mod follow;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::change::Change;
use super::entry::{CacheEntry, NamespacedName};
use super::handle::Cache;
use super::index::Index;
use super::list_limiter::{ListLimiter, ListPermit};
use super::list_watch::ListWatch;
use super::position::Position;
use super::sync_state::{Retry, SyncState, answer};
use super::tolerant::Tolerant;
use super::values::Values;
use crate::metrics::{CacheLabels, Metrics};

type Handler = Box<dyn Fn(Change<'_>) + Send + Sync>;

/// Keeps a [`Cache`] current, and calls handlers with each change. For a `PartialObjectMeta`, the API server sends only
/// metadata.
pub struct Reflector<K> {
    cache: Cache<K>,
    plane: String,
    /// Selects the objects by their labels.
    labels: Option<String>,
    handlers: Vec<Handler>,
    /// Called after each complete list.
    list_handlers: Vec<Box<dyn Fn() + Send + Sync>>,
    /// The number of objects in the cache, and how many of them cannot be decoded.
    counts: [Count; 2],
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<NamespacedName, CacheEntry<K>>,
    /// The last error. It is stored so that the same error is logged only once.
    problem: Option<String>,
    /// Whether the last watch has ended because the connection broke.
    has_broken: bool,
    /// Whether it is normal that an API server does not serve the kind.
    is_optional: bool,
}

/// The state of a cache that follows an API server.
struct Follower<K> {
    source: ListWatch<K>,
    position: Position,
    permit: ListPermit,
    retry: Retry,
    lists: ListLimiter,
    /// Changes when another cache has found that the API server was restored.
    restored: watch::Receiver<()>,
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
            labels: None,
            handlers: Vec::new(),
            list_handlers: Vec::new(),
            counts: [&metrics.cached, &metrics.undecodable]
                .map(|family| Count::new::<K>(planes, family)),
            listed: BTreeMap::new(),
            problem: None,
            has_broken: false,
            is_optional: false,
        }
    }

    /// Logs no warning if an API server does not serve the kind.
    #[must_use]
    pub fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    /// Follows only the objects with this label.
    #[must_use]
    pub fn labelled(self, label: &str, value: &str) -> Self {
        let labels = Some(format!("{label}={value}"));
        Self { labels, ..self }
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

    /// Calls `handler` after each complete list, when the handlers of its changes have been called. `handler` must not
    /// block.
    pub fn on_listed(&mut self, handler: impl Fn() + Send + Sync + 'static) {
        self.list_handlers.push(Box::new(handler));
    }

    /// Lists and watches until the future is dropped. [`Cache::sync_state`] shows whether the cache is current. `lists`
    /// limits concurrent lists. Errors are retried with backoff, and the same error is logged once.
    ///
    /// A watch that ends or fails is resumed from its last resource version. Everything is listed again only if the
    /// API server no longer has this version (410), or if the API server contradicts the history of the cache: an API
    /// server that was restored from an older snapshot accepts a resource version that it has not reached yet, or that
    /// it has issued twice. A watch from such a version misses changes. So after a broken connection, a check precedes
    /// the continuation.
    pub async fn run(mut self, client: Client, lists: ListLimiter) {
        let mut follower = Follower {
            source: ListWatch::new(client, &self.plane, self.labels.clone()),
            position: Position::default(),
            permit: lists.permit().await,
            retry: Retry::default(),
            restored: lists.restored(),
            lists,
        };
        loop {
            let error = self.follow(&mut follower).await;
            follower.permit.end();
            follower.position.failed(&error);
            self.failed(&error, follower.retry.has_held());
            let wait = follower.retry.after(&error);
            follower.lists.wait(&mut follower.permit, wait).await;
            follower.take_slot().await;
        }
    }

    fn succeeded(&mut self, follower: &mut Follower<K>) {
        follower.permit.succeeded();
        if follower.retry.succeeded() {
            follower.lists.note_recovered(&mut follower.permit);
        }
        self.problem = None;
        self.cache.inner.set_sync_state(SyncState::Current);
    }

    /// `has_held` tells whether the cache was current for long before.
    fn failed(&mut self, error: &watcher::Error, has_held: bool) {
        let sync_state = SyncState::failed::<K>(error);
        let problem = sync_state.problem();
        let was_current = self.cache.sync_state().borrow().is_current();
        let is_broken = was_current && answer(error).is_none();
        let was_broken = mem::replace(&mut self.has_broken, is_broken) && !has_held;
        if is_broken && !was_broken {
            // A proxy closes connections from time to time. It is a problem if this happens again soon, or if the next
            // attempt fails.
            debug!(plane = %self.plane, kind = %K::kind(&()), problem, "connection broken; retrying");
        } else if self.is_optional && matches!(sync_state, SyncState::NotServed { .. }) {
            debug!(plane = %self.plane, kind = %K::kind(&()), problem, "not served; retrying");
        } else if self.problem.as_deref() != problem {
            warn!(plane = %self.plane, kind = %K::kind(&()), problem, "watch failed; retrying");
            self.problem = problem.map(str::to_owned);
        }
        self.cache.inner.set_sync_state(sync_state);
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
                for handler in &self.list_handlers {
                    handler();
                }
            }
            Event::Apply(object) => {
                let entry = self.entry(object);
                let former = self.cache.inner.write().insert(entry.clone());
                self.notify(former.as_ref(), Some(&entry));
                self.count();
            }
            Event::Delete(object) => {
                let entry = self.entry(object);
                self.cache.inner.write().remove(&entry);
                self.notify(Some(&entry), None);
                self.count();
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
        self.count();
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

    fn count(&mut self) {
        let sizes = {
            let contents = self.cache.inner.read();
            [contents.objects.len(), contents.undecodable]
        };
        for (count, size) in self.counts.iter_mut().zip(sizes) {
            count.set(size);
        }
    }
}

/// The part of a gauge that belongs to one cache.
struct Count {
    gauge: Gauge,
    counted: i64,
}

impl Count {
    fn new<K: Resource<DynamicType = ()>>(
        plane: &str,
        family: &Family<CacheLabels, Gauge>,
    ) -> Self {
        let labels = CacheLabels {
            plane: plane.to_owned(),
            kind: K::kind(&()).into_owned(),
        };
        Self {
            gauge: family.get_or_create_owned(&labels),
            counted: 0,
        }
    }

    fn set(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.gauge.inc_by(count - self.counted);
        self.counted = count;
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.set(0);
    }
}
