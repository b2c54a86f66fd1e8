//! The objects of a kind by namespace and name, and which of two versions stands.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace and name; the namespace of a cluster-scoped object is empty.
pub(super) type ObjectKey = (String, String);

/// Objects whose end is remembered: more than can go while an answer is under way.
const GONE: usize = 4096;

#[derive(Debug)]
pub(super) struct Contents<K> {
    pub(super) objects: BTreeMap<ObjectKey, Entry<K>>,
    /// How many of the objects cannot be decoded.
    pub(super) undecodable: usize,
    gone: Gone,
}

/// UIDs of the objects that went last: the answer to a write may come after the end of its object.
#[derive(Debug, Default)]
struct Gone {
    uids: HashSet<String>,
    oldest_first: VecDeque<String>,
}

#[derive(Debug)]
pub(super) struct Entry<K> {
    pub(super) metadata: ObjectMeta,
    /// Why the object cannot be decoded, where it cannot.
    pub(super) object: Result<Arc<K>, String>,
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            object: self.object.clone(),
        }
    }
}

impl<K> Entry<K> {
    pub(super) fn key(&self) -> ObjectKey {
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

impl Gone {
    fn add(&mut self, uid: String) {
        self.oldest_first.push_back(uid.clone());
        self.uids.insert(uid);
        if self.oldest_first.len() > GONE
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl<K> Contents<K> {
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            undecodable: 0,
            gone: Gone::default(),
        }
    }

    /// The objects of a namespace, by name.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Entry<K>> {
        let first = (namespace.to_owned(), String::new());
        self.objects
            .range(first..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, entry)| entry)
    }

    /// Whether an object with this UID was here and has gone.
    pub(super) fn has_gone(&self, uid: &str) -> bool {
        self.gone.uids.contains(uid)
    }

    /// Puts an entry in the place of an older one, which it gives back.
    pub(super) fn insert(&mut self, entry: Entry<K>) -> Option<Entry<K>> {
        let key = entry.key();
        if self
            .objects
            .get(&key)
            .is_some_and(|existing| existing.is_newer(&entry))
        {
            return None;
        }
        // It had not gone: a list was only older than the object.
        if let Some(uid) = &entry.metadata.uid {
            self.gone.uids.remove(uid);
        }
        self.undecodable += usize::from(entry.object.is_err());
        let former = self.objects.insert(key, entry);
        self.forget(former.as_ref());
        former
    }

    /// Removes an object, but not a successor of the same name.
    pub(super) fn remove(&mut self, entry: &Entry<K>) {
        let key = entry.key();
        if self
            .objects
            .get(&key)
            .is_some_and(|existing| existing.metadata.uid == entry.metadata.uid)
        {
            let former = self.objects.remove(&key);
            self.forget(former.as_ref());
        }
        if let Some(uid) = entry.metadata.uid.clone() {
            self.gone.add(uid);
        }
    }

    fn forget(&mut self, former: Option<&Entry<K>>) {
        self.undecodable -= usize::from(former.is_some_and(|former| former.object.is_err()));
    }

    /// Takes a complete list in the place of what was known, and gives that back.
    pub(super) fn replace(
        &mut self,
        listed: BTreeMap<ObjectKey, Entry<K>>,
    ) -> BTreeMap<ObjectKey, Entry<K>> {
        self.undecodable = listed
            .values()
            .filter(|entry| entry.object.is_err())
            .count();
        let former = mem::replace(&mut self.objects, listed);
        for (key, entry) in &former {
            match self.objects.get(key) {
                // What was written while the list was made is newer than the list.
                Some(listed) if entry.is_newer(listed) => {
                    self.insert(entry.clone());
                }
                Some(_) => {}
                None => self.remove(entry),
            }
        }
        former
    }
}
