//! What is watched of one kind on one plane.

mod contents;
mod entry;
mod index;
mod list_limiter;
mod reflector;
mod sync_state;
mod tolerant;
mod tombstones;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use thiserror::Error;
use tokio::sync::watch;

use contents::Contents;
use entry::Entry;
pub use entry::ObjectKey;
pub use index::Index;
pub use list_limiter::ListLimiter;
pub use reflector::Reflector;
pub use sync_state::SyncState;

/// What the watch of a cache has told of one object. At least one of the versions is there.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Metadata of the version that handlers heard of last, none if the object is new. Of one that went while it was
    /// watched, the version in which it went.
    pub former: Option<&'a ObjectMeta>,
    /// Metadata of the version that is told of now, none if the object is gone.
    pub current: Option<&'a ObjectMeta>,
}

impl<'a> Change<'a> {
    /// The versions that there are, the former one first.
    pub fn versions(self) -> impl Iterator<Item = &'a ObjectMeta> {
        self.former.into_iter().chain(self.current)
    }
}

/// The objects of a kind, as the watch has last seen them. Cheap to clone.
#[derive(Debug)]
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    contents: RwLock<Contents<K>>,
    synced: watch::Sender<bool>,
    sync_state: watch::Sender<SyncState>,
}

/// An object exists and cannot be read. It is not absent: no decision may take it so.
#[derive(Clone, Debug, Error)]
#[error("{kind} {namespace}/{name} cannot be decoded: {problem}")]
pub struct Undecodable {
    kind: String,
    namespace: String,
    name: String,
    problem: String,
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
        };
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    /// The object of this name, if there is one. The namespace of a cluster-scoped object is empty.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] when it exists and cannot be read.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, Undecodable> {
        let objects = &self.inner.read().objects;
        let entry = objects.get(&(namespace.to_owned(), name.to_owned()));
        entry.map(Entry::decoded).transpose()
    }

    /// All objects of a namespace, by name.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] when one of them cannot be read.
    pub fn list(&self, namespace: &str) -> Result<Vec<Arc<K>>, Undecodable> {
        let contents = self.inner.read();
        contents
            .of_namespace(namespace)
            .map(Entry::decoded)
            .collect()
    }

    /// The objects of a namespace that can be read, by name: for who may do without the others.
    pub fn readable(&self, namespace: &str) -> Vec<Arc<K>> {
        let contents = self.inner.read();
        let entries = contents.of_namespace(namespace);
        entries.filter_map(Entry::readable).collect()
    }

    /// The metadata of all objects of a namespace, also of those that cannot be read otherwise.
    pub fn metadata(&self, namespace: &str) -> Vec<ObjectMeta> {
        let contents = self.inner.read();
        let entries = contents.of_namespace(namespace);
        entries.map(|entry| entry.metadata().clone()).collect()
    }

    /// Namespace and name of every object, also of those that cannot be read.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.inner.read().objects.keys().cloned().collect()
    }

    /// Takes in an object as a write has returned it, unless a later version is known already, or its end: whoever
    /// decides next sees what has been written, though the watch may not have told of it yet. Handlers hear of it from
    /// the watch.
    pub fn observe_write(&self, mut object: K) {
        object.meta_mut().managed_fields = None;
        let metadata = object.meta();
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        // Without finalizers a terminating object goes with the write.
        let goes = metadata.deletion_timestamp.is_some() && finalizers.is_empty();
        if !goes {
            let entry = Entry::Decoded(Arc::new(object));
            self.inner.write().observe_write(entry);
        }
    }

    /// Whether everything has been listed once, now and later.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.inner.synced.subscribe()
    }

    /// Whether this is what the API server has, now and later.
    pub fn sync_state(&self) -> watch::Receiver<SyncState> {
        self.inner.sync_state.subscribe()
    }
}

impl<K> Inner<K> {
    fn read(&self) -> RwLockReadGuard<'_, Contents<K>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents<K>> {
        self.contents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource<DynamicType = ()>> Entry<K> {
    fn decoded(&self) -> Result<Arc<K>, Undecodable> {
        match self {
            Self::Decoded(object) => Ok(Arc::clone(object)),
            Self::Undecodable(invalid) => Err(Undecodable {
                kind: K::kind(&()).into_owned(),
                namespace: invalid.metadata.namespace.clone().unwrap_or_default(),
                name: invalid.metadata.name.clone().unwrap_or_default(),
                problem: invalid.error.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
