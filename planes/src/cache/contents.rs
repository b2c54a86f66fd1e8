//! The objects of a kind by namespace and name, and which of two versions stands.

use std::collections::{BTreeMap, VecDeque};
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
    /// UIDs of the objects that went last: the answer to a write may come after the end of its object.
    pub(super) gone: VecDeque<String>,
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

impl<K> Contents<K> {
    pub(super) const fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            gone: VecDeque::new(),
        }
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
        self.objects.insert(key, entry)
    }

    /// Removes an object, but not a successor of the same name.
    pub(super) fn remove(&mut self, entry: &Entry<K>) {
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
    pub(super) fn replace(
        &mut self,
        listed: BTreeMap<ObjectKey, Entry<K>>,
    ) -> BTreeMap<ObjectKey, Entry<K>> {
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
