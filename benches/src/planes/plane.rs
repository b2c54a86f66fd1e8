//! The objects of one API server.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::apply::Applied;
use super::kinds::{KINDS, KindId};
use super::refusal::Refusal;

/// Namespace, empty where there is none, and name.
pub(super) type Key = (String, String);

/// Events of a kind that are kept for watches.
const LOG: usize = 200_000;

static UIDS: AtomicU64 = AtomicU64::new(1);

/// An API server: what it holds, and what has become of it.
pub(super) struct Plane {
    pub(super) name: String,
    state: Mutex<State>,
}

pub(super) struct State {
    version: u64,
    collections: Vec<Collection>,
    /// What goes with an object, by its UID.
    owned: HashMap<String, BTreeSet<(KindId, Key)>>,
}

/// The objects of one kind.
pub(super) struct Collection {
    pub(super) objects: BTreeMap<Key, Arc<Stored>>,
    log: VecDeque<Event>,
    /// The version of the last event that is not in the log any more.
    forgotten: u64,
    changed: watch::Sender<u64>,
}

/// One version of an object.
pub(super) struct Stored {
    pub(super) key: Key,
    /// All of it, as JSON.
    pub(super) body: Bytes,
    /// Its metadata alone.
    pub(super) metadata: Bytes,
    pub(super) applied: Applied,
}

#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) type_: &'static str,
    pub(super) object: Arc<Stored>,
}

impl Stored {
    pub(super) fn value(&self) -> Value {
        // It was made of one.
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Plane {
    pub(super) fn new(name: impl Into<String>) -> Self {
        let collection = || Collection {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: 0,
            changed: watch::Sender::new(1),
        };
        let state = State {
            version: 1,
            collections: KINDS.iter().map(|_| collection()).collect(),
            owned: HashMap::new(),
        };
        Self {
            name: name.into(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, kind: KindId, key: &Key) -> Option<Arc<Stored>> {
        self.state().get(kind, key).cloned()
    }

    /// Puts an object there as it is, unless there is one of this name.
    pub(super) fn seed(&self, kind: KindId, namespace: &str, name: &str, object: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        if state.get(kind, &key).is_none() {
            state.insert(kind, &key, object, Applied::new());
        }
    }

    /// How many objects of a kind there are.
    pub(super) fn count(&self, kind: KindId) -> usize {
        let state = self.state();
        state.collection(kind).map_or(0, |it| it.objects.len())
    }

    /// The keys of the objects of a kind.
    pub(super) fn keys(&self, kind: KindId) -> Vec<Key> {
        let state = self.state();
        let collection = state.collection(kind);
        collection.map_or_else(Vec::new, |it| it.objects.keys().cloned().collect())
    }

    /// Tells of changes of a kind.
    pub(super) fn changes(&self, kind: KindId) -> watch::Receiver<u64> {
        let state = self.state();
        match state.collection(kind) {
            Some(collection) => collection.changed.subscribe(),
            None => watch::channel(0).1,
        }
    }

    /// What has happened to a kind after a version, and the version that this leads to.
    pub(super) fn since(&self, kind: KindId, version: u64) -> Result<(Vec<Event>, u64), Refusal> {
        let state = self.state();
        let now = state.version;
        let Some(collection) = state.collection(kind) else {
            return Ok((Vec::new(), now));
        };
        if version < collection.forgotten {
            return Err(Refusal::expired());
        }
        let first = collection
            .log
            .partition_point(|event| event.version <= version);
        Ok((collection.log.range(first..).cloned().collect(), now))
    }

    /// At most `limit` objects after a key, whether there are more, and the version of the plane.
    pub(super) fn page(
        &self,
        kind: KindId,
        namespace: Option<&str>,
        after: Option<Key>,
        limit: usize,
    ) -> (Vec<Arc<Stored>>, bool, u64) {
        let state = self.state();
        let Some(collection) = state.collection(kind) else {
            return (Vec::new(), false, state.version);
        };
        let first = match (after, namespace) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(namespace)) => Bound::Included((namespace.to_owned(), String::new())),
            (None, None) => Bound::Unbounded,
        };
        let mut objects = collection
            .objects
            .range((first, Bound::Unbounded))
            .take_while(|((of, _), _)| namespace.is_none_or(|namespace| of == namespace))
            .map(|(_, object)| object);
        let page = objects.by_ref().take(limit).cloned().collect();
        (page, objects.next().is_some(), state.version)
    }
}

impl State {
    pub(super) fn collection(&self, kind: KindId) -> Option<&Collection> {
        self.collections.get(kind.index())
    }

    pub(super) fn get(&self, kind: KindId, key: &Key) -> Option<&Arc<Stored>> {
        self.collection(kind)?.objects.get(key)
    }

    /// Adds a new object, of which the key is in its metadata.
    pub(super) fn insert(
        &mut self,
        kind: KindId,
        key: &Key,
        mut object: Value,
        applied: Applied,
    ) -> Arc<Stored> {
        let of = kind.kind();
        let uid = UIDS.fetch_add(1, Ordering::Relaxed);
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), of.api_version().into());
            fields.insert("kind".into(), of.name.into());
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("name".into(), key.1.as_str().into());
                if of.is_namespaced {
                    metadata.insert("namespace".into(), key.0.as_str().into());
                }
                let uid = format!("{uid:08x}-0000-4000-8000-000000000000");
                metadata.insert("uid".into(), uid.into());
                metadata.insert("creationTimestamp".into(), now().into());
                if of.has_status {
                    metadata.insert("generation".into(), 1.into());
                }
            }
        }
        self.store(kind, key, object, "ADDED", applied)
    }

    /// Puts a version of an object in the place of the one before.
    pub(super) fn update(
        &mut self,
        kind: KindId,
        key: &Key,
        object: Value,
        applied: Applied,
    ) -> Arc<Stored> {
        self.store(kind, key, object, "MODIFIED", applied)
    }

    /// Removes an object, and what it owns. One owner is enough.
    pub(super) fn remove(&mut self, kind: KindId, key: &Key, object: Value) -> Arc<Stored> {
        let uid = text(&object, "/metadata/uid").to_owned();
        let stored = self.store(kind, key, object, "DELETED", Applied::new());
        for (kind, key) in self.owned.remove(&uid).unwrap_or_default() {
            if let Some(object) = self.get(kind, &key).map(|stored| stored.value()) {
                self.delete(kind, &key, object);
            }
        }
        stored
    }

    /// Deletes an object, or marks it where it has finalizers.
    pub(super) fn delete(&mut self, kind: KindId, key: &Key, mut object: Value) -> Arc<Stored> {
        let finalizers = object.pointer("/metadata/finalizers");
        let is_held = finalizers
            .and_then(Value::as_array)
            .is_some_and(|it| !it.is_empty());
        if !is_held {
            return self.remove(kind, key, object);
        }
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return self.remove(kind, key, object);
        };
        if metadata.contains_key("deletionTimestamp") {
            return self.store_or_keep(kind, key, object);
        }
        metadata.insert("deletionTimestamp".into(), now().into());
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
        if let Some(generation) = metadata.get("generation").and_then(Value::as_u64) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        let applied = self.get(kind, key).map(|stored| stored.applied.clone());
        self.update(kind, key, object, applied.unwrap_or_default())
    }

    fn store_or_keep(&mut self, kind: KindId, key: &Key, object: Value) -> Arc<Stored> {
        match self.get(kind, key) {
            Some(stored) => Arc::clone(stored),
            None => self.remove(kind, key, object),
        }
    }

    fn store(
        &mut self,
        kind: KindId,
        key: &Key,
        mut object: Value,
        type_: &'static str,
        applied: Applied,
    ) -> Arc<Stored> {
        self.version += 1;
        let version = self.version;
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.insert("resourceVersion".into(), version.to_string().into());
        }
        let owners = object.pointer("/metadata/ownerReferences");
        for owner in owners.and_then(Value::as_array).into_iter().flatten() {
            let owned = self
                .owned
                .entry(text(owner, "/uid").to_owned())
                .or_default();
            match type_ {
                "DELETED" => owned.remove(&(kind, key.clone())),
                _ => owned.insert((kind, key.clone())),
            };
        }
        let stored = Arc::new(Stored {
            key: key.clone(),
            metadata: object["metadata"].to_string().into(),
            body: object.to_string().into(),
            applied,
        });
        if let Some(collection) = self.collections.get_mut(kind.index()) {
            match type_ {
                "DELETED" => collection.objects.remove(key),
                _ => collection.objects.insert(key.clone(), Arc::clone(&stored)),
            };
            collection.log.push_back(Event {
                version,
                type_,
                object: Arc::clone(&stored),
            });
            if collection.log.len() > LOG
                && let Some(event) = collection.log.pop_front()
            {
                collection.forgotten = event.version;
            }
            collection.changed.send_replace(version);
        }
        stored
    }
}

/// The text at a JSON pointer, or none.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The time as API servers write it.
#[expect(clippy::disallowed_methods, reason = "an API server has its own time")]
pub(super) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
