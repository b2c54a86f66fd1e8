//! The contents of an index: for each value, the objects that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::entry::{CacheEntry, NamespacedName};

/// The objects of each value.
#[derive(Debug)]
pub(super) struct Values<K> {
    of: fn(&K) -> Vec<String>,
    of_undecodable: fn(&ObjectMeta) -> Vec<String>,
    keys: BTreeMap<String, BTreeSet<NamespacedName>>,
}

impl<K> Values<K> {
    pub(super) fn new(
        of: fn(&K) -> Vec<String>,
        of_undecodable: fn(&ObjectMeta) -> Vec<String>,
    ) -> Self {
        Self {
            of,
            of_undecodable,
            keys: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, value: &str) -> impl Iterator<Item = &NamespacedName> {
        self.keys.get(value).into_iter().flatten()
    }

    /// Returns each value that an object has, sorted.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Returns the first object of each value that has this prefix.
    pub(super) fn first_of_each(&self, prefix: &str) -> impl Iterator<Item = &NamespacedName> {
        self.range(prefix).filter_map(BTreeSet::first)
    }

    /// Returns the objects of the values that have this prefix, in the order of the values.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = &NamespacedName> {
        self.range(prefix).flatten()
    }

    fn range(&self, prefix: &str) -> impl Iterator<Item = &BTreeSet<NamespacedName>> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let values = self.keys.range::<str, _>(from);
        let values = values.take_while(move |(value, _)| value.starts_with(prefix));
        values.map(|(_, keys)| keys)
    }

    pub(super) fn insert(&mut self, key: &NamespacedName, entry: &CacheEntry<K>) {
        for value in self.values(entry) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    pub(super) fn remove(&mut self, key: &NamespacedName, entry: &CacheEntry<K>) {
        for value in self.values(entry) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }

    fn values(&self, entry: &CacheEntry<K>) -> Vec<String> {
        match entry {
            CacheEntry::Decoded(object) => (self.of)(object),
            CacheEntry::Undecodable(invalid) => (self.of_undecodable)(&invalid.metadata),
        }
    }

    /// Replaces all objects.
    pub(super) fn replace(&mut self, objects: &BTreeMap<NamespacedName, CacheEntry<K>>) {
        self.keys.clear();
        for (key, entry) in objects {
            self.insert(key, entry);
        }
    }
}
