//! What is watched of one kind on one plane.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;
use tracing::warn;

use crate::metrics::{CacheLabels, Metrics};

/// Namespace and name; the namespace of a cluster-scoped object is empty.
type ObjectKey = (String, String);
type Handler = Box<dyn Fn(&ObjectMeta) + Send + Sync>;

/// Objects whose end is remembered: more than can go while an answer is under way.
const GONE: usize = 4096;
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// The objects of a kind, as the watch has last seen them. Cheap to clone.
#[derive(Debug)]
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    contents: RwLock<Contents<K>>,
    synced: watch::Sender<bool>,
}

#[derive(Debug)]
struct Contents<K> {
    objects: BTreeMap<ObjectKey, Entry<K>>,
    /// UIDs of the objects that went last: the answer to a write may come after the end of its object.
    gone: VecDeque<String>,
}

#[derive(Debug)]
struct Entry<K> {
    metadata: ObjectMeta,
    /// Why the object cannot be decoded, where it cannot.
    object: Result<Arc<K>, String>,
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            object: self.object.clone(),
        }
    }
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
        let contents = Contents {
            objects: BTreeMap::new(),
            gone: VecDeque::new(),
        };
        let inner = Inner {
            contents: RwLock::new(contents),
            synced: watch::Sender::new(false),
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
        let objects = &self.inner.read().objects;
        objects
            .range((namespace.to_owned(), String::new())..)
            .take_while(|((of, _), _)| of == namespace)
            .map(|(_, entry)| entry.decoded())
            .collect()
    }

    /// The metadata of all objects of a namespace, also of those that cannot be read otherwise.
    pub fn metadata(&self, namespace: &str) -> Vec<ObjectMeta> {
        let objects = &self.inner.read().objects;
        objects
            .range((namespace.to_owned(), String::new())..)
            .take_while(|((of, _), _)| of == namespace)
            .map(|(_, entry)| entry.metadata.clone())
            .collect()
    }

    /// Takes in an object as a write has returned it, unless a later version is known already, or its end: whoever
    /// decides next sees what has been written, though the watch may not have told of it yet. Handlers hear of it from
    /// the watch.
    pub fn learn(&self, mut object: K) {
        object.meta_mut().managed_fields = None;
        let metadata = object.meta().clone();
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        // Without finalizers a terminating object goes with the write.
        let goes = metadata.deletion_timestamp.is_some() && finalizers.is_empty();
        let mut contents = self.inner.write();
        let is_gone = metadata
            .uid
            .as_ref()
            .is_some_and(|uid| contents.gone.contains(uid));
        if !goes && !is_gone {
            contents.insert(Entry {
                metadata,
                object: Ok(Arc::new(object)),
            });
        }
    }

    /// Whether everything has been listed once, now and later.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.inner.synced.subscribe()
    }
}

impl<K> Entry<K> {
    fn key(&self) -> ObjectKey {
        let ObjectMeta {
            namespace, name, ..
        } = &self.metadata;
        (
            namespace.clone().unwrap_or_default(),
            name.clone().unwrap_or_default(),
        )
    }

    /// Whether this is a later version than `other`. Resource versions are comparable numbers (Kubernetes 1.35, KEP-5504).
    fn is_newer(&self, other: &Self) -> bool {
        let version = |entry: &Self| {
            entry
                .metadata
                .resource_version
                .as_ref()?
                .parse::<u128>()
                .ok()
        };
        version(self).is_some_and(|this| version(other).is_some_and(|other| this > other))
    }
}

impl<K> Contents<K> {
    /// Puts an entry in the place of an older one, which it gives back.
    fn insert(&mut self, entry: Entry<K>) -> Option<Entry<K>> {
        let key = entry.key();
        if self
            .objects
            .get(&key)
            .is_some_and(|existing| existing.is_newer(&entry))
        {
            return None;
        }
        self.objects.insert(key, entry)
    }

    /// Removes an object, but not a successor of the same name.
    fn remove(&mut self, entry: &Entry<K>) {
        let key = entry.key();
        if self
            .objects
            .get(&key)
            .is_some_and(|existing| existing.metadata.uid == entry.metadata.uid)
        {
            self.objects.remove(&key);
        }
        self.gone.extend(entry.metadata.uid.clone());
        if self.gone.len() > GONE {
            self.gone.pop_front();
        }
    }

    /// Takes a complete list in the place of what was known, and gives that back.
    fn replace(&mut self, listed: BTreeMap<ObjectKey, Entry<K>>) -> BTreeMap<ObjectKey, Entry<K>> {
        let former = mem::replace(&mut self.objects, listed);
        for (key, entry) in &former {
            match self.objects.get(key) {
                // What was written while the list was made is newer than the list.
                Some(listed) if entry.is_newer(listed) => {
                    self.objects.insert(key.clone(), entry.clone());
                }
                Some(_) => {}
                None => self.remove(entry),
            }
        }
        former
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
        self.object.clone().map_err(|problem| Undecodable {
            kind: K::kind(&()).into_owned(),
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            name: self.metadata.name.clone().unwrap_or_default(),
            problem,
        })
    }
}

/// Keeps a [`Cache`] current and tells handlers what changed.
pub struct Follower<K> {
    cache: Cache<K>,
    plane: String,
    handlers: Vec<Handler>,
    metrics: Metrics,
    /// The objects of a list that is not complete yet.
    listed: BTreeMap<ObjectKey, Entry<K>>,
    /// The last error, so that it is reported once.
    problem: Option<String>,
}

impl<K> Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A cache that nothing is in yet. `plane` names the API server in logs and metrics.
    pub fn new(plane: &str, metrics: &Metrics) -> Self {
        Self {
            cache: Cache::default(),
            plane: plane.to_owned(),
            handlers: Vec::new(),
            metrics: metrics.clone(),
            listed: BTreeMap::new(),
            problem: None,
        }
    }

    /// The cache that is kept.
    pub fn cache(&self) -> Cache<K> {
        self.cache.clone()
    }

    /// Calls `handler` with the metadata of every object that appears, changes or goes, after the cache has it; of one
    /// that changes, with both versions. It must not block.
    pub fn on_change(&mut self, handler: impl Fn(&ObjectMeta) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Watches for ever. Errors are waited out and reported once.
    pub async fn run(mut self, api: Api<DeserializeGuard<K>>) {
        let config = watcher::Config::default().page_size(PAGE);
        let mut events = watcher(api, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                Err(error) => self.report(&error),
            }
        }
    }

    fn report(&mut self, error: &watcher::Error) {
        let problem = error.to_string();
        if self.problem.as_ref() != Some(&problem) {
            warn!(plane = %self.plane, kind = %K::kind(&()), %problem, "watch failed; it is begun again");
            self.problem = Some(problem);
        }
    }

    fn apply(&mut self, event: Event<DeserializeGuard<K>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let entry = self.entry(object);
                self.listed.insert(entry.key(), entry);
            }
            Event::InitDone => {
                let listed = mem::take(&mut self.listed);
                self.replace(listed);
                self.problem = None;
                self.cache.inner.synced.send_replace(true);
            }
            Event::Apply(object) => {
                let entry = self.entry(object);
                let metadata = entry.metadata.clone();
                let former = self.cache.inner.write().insert(entry);
                self.tell(
                    former.as_ref().map(|former| &former.metadata),
                    Some(&metadata),
                );
                self.count_undecodable();
            }
            Event::Delete(object) => {
                let entry = self.entry(object);
                self.cache.inner.write().remove(&entry);
                self.tell(None, Some(&entry.metadata));
                self.count_undecodable();
            }
        }
    }

    /// Takes a complete list in the place of what was known. Handlers hear of objects that differ, and of those that went
    /// while no one watched.
    fn replace(&self, listed: BTreeMap<ObjectKey, Entry<K>>) {
        let new: Vec<_> = listed
            .iter()
            .map(|(key, entry)| (key.clone(), entry.metadata.clone()))
            .collect();
        let mut former = self.cache.inner.write().replace(listed);
        for (key, metadata) in new {
            let former = former.remove(&key).map(|entry| entry.metadata);
            let same = |former: &ObjectMeta| {
                former.uid == metadata.uid && former.resource_version == metadata.resource_version
            };
            if !former.as_ref().is_some_and(same) {
                self.tell(former.as_ref(), Some(&metadata));
            }
        }
        for entry in former.values() {
            self.tell(Some(&entry.metadata), None);
        }
        self.count_undecodable();
    }

    fn tell(&self, former: Option<&ObjectMeta>, current: Option<&ObjectMeta>) {
        for metadata in former.into_iter().chain(current) {
            self.handlers.iter().for_each(|handler| handler(metadata));
        }
    }

    fn entry(&self, object: DeserializeGuard<K>) -> Entry<K> {
        let (object, mut metadata) = match object.0 {
            Ok(mut object) => {
                // Nobody reads who manages which field, and it is the larger half of many objects.
                object.meta_mut().managed_fields = None;
                let metadata = object.meta().clone();
                (Ok(Arc::new(object)), metadata)
            }
            Err(invalid) => (Err(invalid.error), invalid.metadata),
        };
        metadata.managed_fields = None;
        let entry = Entry { metadata, object };
        if let Err(problem) = &entry.object {
            let (namespace, name) = entry.key();
            warn!(plane = %self.plane, kind = %K::kind(&()), namespace, name, problem, "object cannot be decoded");
        }
        entry
    }

    fn count_undecodable(&self) {
        let objects = &self.cache.inner.read().objects;
        let count = objects
            .values()
            .filter(|entry| entry.object.is_err())
            .count();
        let labels = CacheLabels {
            plane: self.plane.clone(),
            kind: K::kind(&()).into_owned(),
        };
        self.metrics
            .undecodable
            .get_or_create(&labels)
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests;
