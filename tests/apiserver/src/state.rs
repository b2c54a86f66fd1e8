//! The objects of one API server, and the history of their changes.

mod page;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::apply::Owners;
use crate::kinds::KindId;
use crate::refusal::Refusal;
use crate::text;

/// Namespace and name of an object. The namespace is empty for a cluster-scoped object.
pub type Key = (String, String);

/// Maximum number of events that are kept for watches, per kind.
const LOG: usize = 200_000;

static UIDS: AtomicU64 = AtomicU64::new(1);

/// A snapshot of the state.
#[derive(Clone, Debug)]
pub struct Backup {
    version: u64,
    objects: Vec<BTreeMap<Key, Arc<Stored>>>,
}

#[derive(Debug)]
pub(crate) struct State {
    version: u64,
    collections: Vec<KindStore>,
    pub(crate) collects_garbage: bool,
    pub(crate) clock: fn() -> Timestamp,
    /// The dependents of each owner, by the UID of the owner. Used only with garbage collection.
    owned: HashMap<String, BTreeSet<(KindId, Key)>>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct KindStore {
    pub(crate) objects: BTreeMap<Key, Arc<Stored>>,
    log: VecDeque<Event>,
    /// The version of the last event that was dropped from the history.
    pub(crate) forgotten: u64,
    pub(crate) changed: watch::Sender<u64>,
}

/// One version of an object.
#[derive(Debug)]
pub struct Stored {
    /// Namespace and name.
    pub key: Key,
    /// The whole object, as JSON.
    pub body: Bytes,
    /// Only the metadata of the object, as JSON.
    pub(crate) metadata: Bytes,
    pub(crate) owners: Owners,
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEventType {
    Added,
    Modified,
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) type_: WatchEventType,
    /// The previous version of the object, if there was one.
    pub(crate) former: Option<Arc<Stored>>,
    pub(crate) object: Arc<Stored>,
}

impl Stored {
    pub(crate) fn new(key: &Key, object: &Value, owners: Owners) -> Self {
        Self {
            key: key.clone(),
            metadata: object["metadata"].to_string().into(),
            owners,
            body: object.to_string().into(),
        }
    }

    /// Returns the same object with another version.
    pub(crate) fn at(&self, version: u64) -> Self {
        let mut object = self.value();
        set(&mut object, "resourceVersion", version.to_string().into());
        Self::new(&self.key, &object, Owners::default())
    }

    /// Returns the object as a JSON value.
    pub fn value(&self) -> Value {
        // The body was serialized from a value, so it is valid JSON.
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Default for State {
    fn default() -> Self {
        let collection = |_| KindStore {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: 0,
            changed: watch::Sender::new(1),
        };
        Self {
            version: 1,
            collections: KindId::all().map(collection).collect(),
            collects_garbage: false,
            clock: now,
            owned: HashMap::new(),
        }
    }
}

impl State {
    /// Returns the collection of a kind.
    pub(crate) fn collection(&self, kind: KindId) -> &KindStore {
        &self.collections[kind.index()]
    }

    pub(crate) fn get(&self, kind: KindId, key: &Key) -> Option<&Arc<Stored>> {
        self.collection(kind).objects.get(key)
    }

    /// Returns the events of a kind after a version, and the version of the last event.
    pub(crate) fn since(&self, kind: KindId, version: u64) -> Result<(Vec<Event>, u64), Refusal> {
        let collection = self.collection(kind);
        if version < collection.forgotten {
            return Err(Refusal::expired(version, collection.forgotten));
        }
        let first = collection
            .log
            .partition_point(|event| event.version <= version);
        let events = collection.log.range(first..).cloned().collect();
        Ok((events, self.version))
    }

    pub(crate) fn backup(&self) -> Backup {
        let objects = self.collections.iter().map(|it| it.objects.clone());
        Backup {
            version: self.version,
            objects: objects.collect(),
        }
    }

    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.version = backup.version;
        for (collection, objects) in self.collections.iter_mut().zip(&backup.objects) {
            collection.objects = objects.clone();
            collection
                .log
                .retain(|event| event.version <= backup.version);
            collection.changed.send_replace(backup.version);
        }
    }

    pub(crate) fn compact(&mut self) {
        for collection in &mut self.collections {
            collection.log.clear();
            collection.forgotten = self.version;
        }
    }

    /// Stores an object without any checks. An existing object is replaced.
    pub(crate) fn put(&mut self, kind: KindId, key: &Key, object: Value) -> Arc<Stored> {
        let existing = self
            .get(kind, key)
            .map(|it| (it.value(), it.owners.clone()));
        match existing {
            None => self.insert(kind, key, object, Owners::of_created),
            Some((former, mut owners)) => {
                let mut object = self.complete(kind, key, object, Some(&former));
                owners.update(&former, &object);
                set(&mut object, "resourceVersion", Value::Null);
                self.update(kind, key, object, owners)
            }
        }
    }

    /// Adds a new object. Its field owners are computed from its first version.
    pub(crate) fn insert(
        &mut self,
        kind: KindId,
        key: &Key,
        object: Value,
        owners: impl FnOnce(Bytes) -> Owners,
    ) -> Arc<Stored> {
        let object = self.complete(kind, key, object, None);
        self.store(kind, key, object, WatchEventType::Added, owners)
    }

    /// Adds the metadata that every object must have, where it is missing.
    fn complete(
        &self,
        kind: KindId,
        key: &Key,
        mut object: Value,
        former: Option<&Value>,
    ) -> Value {
        let of = kind.kind();
        object["apiVersion"] = of.api_version().into();
        object["kind"] = of.name.into();
        set(&mut object, "name", key.1.as_str().into());
        if of.is_namespaced {
            set(&mut object, "namespace", key.0.as_str().into());
        }
        for field in ["uid", "creationTimestamp", "generation"] {
            if !object["metadata"][field].is_null() || (field == "generation" && !of.has_status) {
                continue;
            }
            let former = former.map(|former| former["metadata"][field].clone());
            let value = former.unwrap_or_else(|| match field {
                "uid" => {
                    let uid = UIDS.fetch_add(1, Ordering::Relaxed);
                    format!("{uid:08x}-0000-4000-8000-000000000000").into()
                }
                "creationTimestamp" => self.time(),
                _ => 1.into(),
            });
            set(&mut object, field, value);
        }
        object
    }

    /// Replaces the current version of an object.
    pub(crate) fn update(
        &mut self,
        kind: KindId,
        key: &Key,
        object: Value,
        owners: Owners,
    ) -> Arc<Stored> {
        self.store(kind, key, object, WatchEventType::Modified, |_| owners)
    }

    /// Removes an object, and its dependents if garbage collection is enabled.
    pub(crate) fn remove(&mut self, kind: KindId, key: &Key, object: Value) -> Arc<Stored> {
        let uid = text(&object, "/metadata/uid").to_owned();
        let stored = self.store(kind, key, object, WatchEventType::Deleted, |_| {
            Owners::default()
        });
        for (kind, key) in self.owned.remove(&uid).unwrap_or_default() {
            if let Some(object) = self.get(kind, &key).map(|stored| stored.value()) {
                self.delete(kind, &key, object);
            }
        }
        stored
    }

    /// Deletes an object, or marks it as terminating while it has finalizers.
    pub(crate) fn delete(&mut self, kind: KindId, key: &Key, mut object: Value) -> Arc<Stored> {
        let finalizers = object.pointer("/metadata/finalizers");
        let finalizers = finalizers.and_then(Value::as_array);
        if finalizers.is_none_or(Vec::is_empty) {
            return self.remove(kind, key, object);
        }
        let existing = self.get(kind, key).cloned();
        if let (Some(existing), true) = (&existing, is_terminating(&object)) {
            return Arc::clone(existing);
        }
        let time = self.time();
        set(&mut object, "deletionTimestamp", time);
        set(&mut object, "deletionGracePeriodSeconds", 0.into());
        if let Some(generation) = object["metadata"]["generation"].as_u64() {
            set(&mut object, "generation", (generation + 1).into());
        }
        let owners = existing.map(|stored| stored.owners.clone());
        self.update(kind, key, object, owners.unwrap_or_default())
    }

    /// Returns the time in the format of API servers.
    fn time(&self) -> Value {
        format_time((self.clock)()).into()
    }

    fn store(
        &mut self,
        kind: KindId,
        key: &Key,
        mut object: Value,
        type_: WatchEventType,
        owners: impl FnOnce(Bytes) -> Owners,
    ) -> Arc<Stored> {
        self.version += 1;
        let version = self.version;
        set(&mut object, "resourceVersion", version.to_string().into());
        if self.collects_garbage {
            self.note_owners(kind, key, &object, type_);
        }
        let body = Bytes::from(object.to_string());
        let stored = Arc::new(Stored {
            key: key.clone(),
            metadata: object["metadata"].to_string().into(),
            owners: owners(body.clone()),
            body,
        });
        let collection = &mut self.collections[kind.index()];
        let former = match type_ {
            WatchEventType::Deleted => collection.objects.remove(key),
            _ => collection.objects.insert(key.clone(), Arc::clone(&stored)),
        };
        collection.log.push_back(Event {
            version,
            type_,
            former,
            object: Arc::clone(&stored),
        });
        if collection.log.len() > LOG
            && let Some(event) = collection.log.pop_front()
        {
            collection.forgotten = event.version;
        }
        collection.changed.send_replace(version);
        stored
    }

    /// Records the owners of this object.
    fn note_owners(&mut self, kind: KindId, key: &Key, object: &Value, type_: WatchEventType) {
        let owners = object.pointer("/metadata/ownerReferences");
        for owner in owners.and_then(Value::as_array).into_iter().flatten() {
            let uid = text(owner, "/uid").to_owned();
            let owned = self.owned.entry(uid).or_default();
            match type_ {
                WatchEventType::Deleted => owned.remove(&(kind, key.clone())),
                _ => owned.insert((kind, key.clone())),
            };
        }
    }
}

/// Returns whether the object is terminating.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Sets a field of the metadata.
fn set(object: &mut Value, field: &str, value: Value) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"][field] = value;
}

fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the current time in the format of API servers, in whole seconds.
pub fn time_now() -> String {
    format_time(now())
}

#[expect(clippy::disallowed_methods, reason = "an API server has its own time")]
fn now() -> Timestamp {
    Timestamp::now()
}
