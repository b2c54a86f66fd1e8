//! The objects of a kind by namespace and name, and which of two versions stands.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;

use super::gone::Gone;

/// Namespace and name; the namespace of a cluster-scoped object is empty.
pub(super) type ObjectKey = (String, String);

#[derive(Debug)]
pub(super) struct Contents<K> {
    pub(super) objects: BTreeMap<ObjectKey, Entry<K>>,
    /// How many of the objects cannot be decoded.
    pub(super) undecodable: usize,
    gone: Gone,
}

/// An object, or what is known of one that cannot be decoded. Cheap to clone.
#[derive(Debug)]
pub(super) enum Entry<K> {
    Decoded(Arc<K>),
    Undecodable(Arc<InvalidObject>),
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Decoded(object) => Self::Decoded(Arc::clone(object)),
            Self::Undecodable(invalid) => Self::Undecodable(Arc::clone(invalid)),
        }
    }
}

impl<K: Resource> Entry<K> {
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Decoded(object) => object.meta(),
            Self::Undecodable(invalid) => &invalid.metadata,
        }
    }

    pub(super) fn key(&self) -> ObjectKey {
        let ObjectMeta {
            namespace, name, ..
        } = self.metadata();
        (
            namespace.clone().unwrap_or_default(),
            name.clone().unwrap_or_default(),
        )
    }

    pub(super) fn is_undecodable(&self) -> bool {
        matches!(self, Self::Undecodable(_))
    }

    /// Whether this is a later version than `other`. Resource versions are comparable numbers (Kubernetes 1.35, KEP-5504).
    fn is_newer(&self, other: &Self) -> bool {
        let version = |entry: &Self| {
            let version = entry.metadata().resource_version.as_ref()?;
            version.parse::<u128>().ok()
        };
        version(self).is_some_and(|this| version(other).is_some_and(|other| this > other))
    }
}

impl<K> Default for Contents<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            undecodable: 0,
            gone: Gone::default(),
        }
    }
}

impl<K: Resource> Contents<K> {
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
        self.gone.contains(uid)
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
        if let Some(uid) = &entry.metadata().uid {
            self.gone.take_back(uid);
        }
        self.undecodable += usize::from(entry.is_undecodable());
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
            .is_some_and(|existing| existing.metadata().uid == entry.metadata().uid)
        {
            let former = self.objects.remove(&key);
            self.forget(former.as_ref());
        }
        if let Some(uid) = &entry.metadata().uid {
            self.gone.add(uid);
        }
    }

    fn forget(&mut self, former: Option<&Entry<K>>) {
        self.undecodable -= usize::from(former.is_some_and(Entry::is_undecodable));
    }

    /// Takes a complete list in the place of what was known, and gives that back.
    pub(super) fn replace(
        &mut self,
        listed: BTreeMap<ObjectKey, Entry<K>>,
    ) -> BTreeMap<ObjectKey, Entry<K>> {
        self.undecodable = listed
            .values()
            .filter(|entry| entry.is_undecodable())
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
