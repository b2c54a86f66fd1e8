//! A handle of a cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use tokio::sync::watch;
use tokio::time::Instant;

use super::change::Change;
use super::contents::Contents;
use super::entry::{CacheEntry, NamespacedName, Undecodable};
use super::sync_state::SyncState;

/// The objects of one kind on one plane, as its watch last reported them. Cheap to clone.
#[derive(Debug)]
pub struct Cache<K> {
    pub(super) inner: Arc<Inner<K>>,
}

#[derive(Debug)]
pub(super) struct Inner<K> {
    contents: RwLock<Contents<K>>,
    pub(super) synced: watch::Sender<bool>,
    sync_state: watch::Sender<SyncState>,
    /// The time at which the cache was current last; `None` while it is current, and if it has never been current.
    stale_since: Mutex<Option<Instant>>,
    /// The problem of the last refusal; `None` if the kind has been listed since.
    refusal: Mutex<Option<String>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let inner = Inner {
            contents: RwLock::default(),
            synced: watch::Sender::new(false),
            sync_state: watch::Sender::new(SyncState::Listing),
            stale_since: Mutex::default(),
            refusal: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    /// Returns the object of this name, if it exists. The namespace of a cluster-scoped object is empty.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] if the object exists and cannot be decoded.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, Undecodable> {
        let objects = &self.inner.read().objects;
        let entry = objects.get(&(namespace.to_owned(), name.to_owned()));
        entry.map(CacheEntry::decoded).transpose()
    }

    /// Returns all objects of a namespace, sorted by name.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] if one of them cannot be decoded.
    pub fn list(&self, namespace: &str) -> Result<Vec<Arc<K>>, Undecodable> {
        let contents = self.inner.read();
        contents
            .of_namespace(namespace)
            .map(CacheEntry::decoded)
            .collect()
    }

    /// Returns the objects of a namespace that can be decoded, sorted by name. Use this method only if a missing object
    /// does no harm.
    pub fn readable(&self, namespace: &str) -> Vec<Arc<K>> {
        let contents = self.inner.read();
        let entries = contents.of_namespace(namespace);
        entries.filter_map(CacheEntry::readable).collect()
    }

    /// Returns the objects of a namespace that cannot be decoded, sorted by name. Together with [`Self::readable`],
    /// these are all objects of the namespace.
    pub fn undecodable(&self, namespace: &str) -> Vec<Arc<InvalidObject>> {
        let contents = self.inner.read();
        if contents.undecodable == 0 {
            return Vec::new();
        }
        let entries = contents.of_namespace(namespace);
        entries.filter_map(CacheEntry::invalid).collect()
    }

    /// Returns the metadata of the object of this name, if it exists. The object need not be decodable.
    pub fn metadata_of(&self, namespace: &str, name: &str) -> Option<ObjectMeta> {
        let objects = &self.inner.read().objects;
        let entry = objects.get(&(namespace.to_owned(), name.to_owned()));
        entry.map(|entry| entry.metadata().clone())
    }

    /// Returns the metadata of all objects of a namespace, including those that cannot be decoded.
    pub fn metadata(&self, namespace: &str) -> Vec<ObjectMeta> {
        let contents = self.inner.read();
        let entries = contents.of_namespace(namespace);
        entries.map(|entry| entry.metadata().clone()).collect()
    }

    /// Returns namespace and name of every object, including those that cannot be decoded.
    pub fn keys(&self) -> Vec<NamespacedName> {
        self.inner.read().objects.keys().cloned().collect()
    }

    /// Calls `handler` with each object as if the object were new. The cache is not locked during the calls.
    pub fn replay(&self, handler: impl Fn(Change<'_>)) {
        let entries: Vec<_> = self.inner.read().objects.values().cloned().collect();
        for entry in &entries {
            handler(Change {
                former: None,
                current: Some(entry.metadata()),
            });
        }
    }

    /// Stores an object that the API server returned for a write, unless a later version or the deletion of the object
    /// is known. The next reconciliation then sees the write before the watch reports it. Handlers are called only when
    /// the watch reports the write.
    pub fn observe_write(&self, mut object: K) {
        object.meta_mut().managed_fields = None;
        let metadata = object.meta();
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        // A terminating object without finalizers was deleted by this write.
        let is_deleted = metadata.deletion_timestamp.is_some() && finalizers.is_empty();
        if !is_deleted {
            let entry = CacheEntry::Decoded(Arc::new(object));
            self.inner.write().observe_write(entry);
        }
    }

    /// Returns a receiver that shows whether the first list is complete.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.inner.synced.subscribe()
    }

    /// Returns a receiver that shows whether the cache is in sync with the API server.
    pub fn sync_state(&self) -> watch::Receiver<SyncState> {
        self.inner.sync_state.subscribe()
    }
}

impl<K> Cache<K> {
    /// Returns why the API server refused the kind, if it has and the kind has not been listed since. While the API
    /// server cannot be reached, the refusal is the last known state.
    pub fn refusal(&self) -> Option<String> {
        self.inner.refusal_lock().clone()
    }

    /// Returns how long the cache has not been current. The time is zero while the cache is current. Returns `None` if
    /// the cache has never been current.
    pub fn stale_for(&self) -> Option<Duration> {
        let inner = &self.inner;
        // While the state is borrowed, the time does not change.
        let state = inner.sync_state.borrow();
        match state.is_current() {
            true => Some(Duration::ZERO),
            false => inner.stale_since().map(|since| since.elapsed()),
        }
    }
}

impl<K> Inner<K> {
    fn stale_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stale_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal_lock(&self) -> MutexGuard<'_, Option<String>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets that the API server has refused the kind, because it has listed the kind.
    pub(super) fn forget_refusal(&self) {
        *self.refusal_lock() = None;
    }

    /// Changes the sync state. Receivers are told only if it differs.
    pub(super) fn set_sync_state(&self, sync_state: SyncState) {
        self.sync_state.send_if_modified(|former| {
            match (former.is_current(), sync_state.is_current()) {
                (true, false) => *self.stale_since() = Some(Instant::now()),
                (_, true) => *self.stale_since() = None,
                (false, false) => {}
            }
            if sync_state.is_current() {
                *self.refusal_lock() = None;
            } else if sync_state.is_refused() {
                *self.refusal_lock() = sync_state.problem().map(str::to_owned);
            }
            let is_changed = *former != sync_state;
            *former = sync_state;
            is_changed
        });
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Contents<K>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Contents<K>> {
        self.contents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
