//! The objects of a cache by namespace and name, and the rules that decide which of two versions of an object the cache
//! keeps.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use kube::Resource;

use super::entry::{CacheEntry, NamespacedName, ObjectVersion};
use super::tombstones::Tombstones;
use super::values::Values;

#[derive(Debug)]
pub(super) struct Contents<K> {
    pub(super) objects: BTreeMap<NamespacedName, CacheEntry<K>>,
    /// Number of objects that cannot be decoded.
    pub(super) undecodable: usize,
    tombstones: Tombstones,
    /// Objects that a write returned and that the watch has not reported yet.
    written: HashMap<NamespacedName, UnreportedWrite<K>>,
    /// Number of lists that have begun.
    lists: u64,
    indexes: Vec<Values<K>>,
}

/// The state of an object in the cache before a write that the watch has not reported yet.
#[derive(Debug)]
struct UnreportedWrite<K> {
    /// The version that the watch reported last; `None` if the watch has reported no version.
    reported: Option<CacheEntry<K>>,
    /// The number of lists that had begun when the write was stored.
    lists: u64,
}

impl<K> Default for Contents<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            undecodable: 0,
            tombstones: Tombstones::default(),
            written: HashMap::new(),
            lists: 0,
            indexes: Vec::new(),
        }
    }
}

impl<K: Resource> Contents<K> {
    /// Returns the objects of a namespace, sorted by name.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &CacheEntry<K>> {
        let first = (namespace.to_owned(), String::new());
        self.objects
            .range(first..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, entry)| entry)
    }

    /// Stores an object that a write returned, unless a later version or the deletion of the object is known.
    pub(super) fn observe_write(&mut self, entry: CacheEntry<K>) {
        let uid = entry.metadata().uid.as_ref();
        if uid.is_some_and(|uid| self.tombstones.contains(uid)) {
            return;
        }
        let key = entry.key();
        let existing = self.objects.get(&key);
        if existing.is_some_and(|existing| existing.is_same_as(&entry)) {
            return;
        }
        if let Ok(former) = self.put(key.clone(), entry) {
            let lists = self.lists;
            let write = self.written.entry(key);
            let reported = former;
            write.or_insert(UnreportedWrite { reported, lists }).lists = lists;
        }
    }

    /// Stores a version that the watch reported, unless a later version is known. Returns the version that the watch
    /// reported before.
    pub(super) fn insert(&mut self, entry: CacheEntry<K>) -> Option<CacheEntry<K>> {
        let key = entry.key();
        // The object exists, so a list that did not contain it was older.
        if let Some(uid) = &entry.metadata().uid {
            self.tombstones.take_back(uid);
        }
        match self.put(key.clone(), entry) {
            Ok(former) => match self.written.remove(&key) {
                Some(write) => write.reported,
                None => former,
            },
            Err(older) => {
                let write = self.written.get_mut(&key);
                write.and_then(|write| write.reported.replace(older))
            }
        }
    }

    /// Replaces an older entry, and returns it.
    ///
    /// # Errors
    ///
    /// The given entry, if the existing one is newer.
    fn put(
        &mut self,
        key: NamespacedName,
        entry: CacheEntry<K>,
    ) -> Result<Option<CacheEntry<K>>, CacheEntry<K>> {
        let existing = self.objects.get(&key);
        if existing.is_some_and(|existing| existing.is_newer(&entry)) {
            return Err(entry);
        }
        let former = self.take_out(&key);
        self.undecodable += usize::from(entry.is_undecodable());
        let indexes = self.indexes.iter_mut();
        indexes.for_each(|index| index.insert(&key, &entry));
        self.objects.insert(key, entry);
        Ok(former)
    }

    fn take_out(&mut self, key: &NamespacedName) -> Option<CacheEntry<K>> {
        let entry = self.objects.remove(key)?;
        self.undecodable -= usize::from(entry.is_undecodable());
        let indexes = self.indexes.iter_mut();
        indexes.for_each(|index| index.remove(key, &entry));
        Some(entry)
    }

    /// Removes an object that the watch reported as deleted. A later object with the same name is not removed.
    pub(super) fn remove(&mut self, entry: &CacheEntry<K>) {
        let key = entry.key();
        let existing = self.objects.get(&key);
        if existing.is_some_and(|existing| existing.metadata().uid == entry.metadata().uid) {
            self.take_out(&key);
            self.written.remove(&key);
        } else if let Some(write) = self.written.get_mut(&key) {
            write.reported = None;
        }
        if let Some(uid) = &entry.metadata().uid {
            self.tombstones.add(uid);
        }
    }

    /// Records that a list begins.
    pub(super) fn begin_list(&mut self) {
        self.lists += 1;
    }

    /// Replaces all objects by a complete list. Returns the objects that the watch reported before, and the written
    /// objects that the list does not contain. The list also replaces objects with higher resource versions. Reason: an
    /// API server that was restored from an older snapshot issues lower versions again.
    ///
    /// Only objects that were written after the list began can be newer than the list. If the list does not contain
    /// such an object, the object may have been deleted before the list was made. If it was not deleted, the watch
    /// reports it again.
    pub(super) fn replace(
        &mut self,
        listed: BTreeMap<NamespacedName, CacheEntry<K>>,
    ) -> BTreeMap<NamespacedName, CacheEntry<K>> {
        let mut former = mem::replace(&mut self.objects, listed);
        let mut written = Vec::new();
        for (key, write) in mem::take(&mut self.written) {
            let entry = match write.reported {
                Some(reported) => former.insert(key.clone(), reported),
                // The list is the first report about this object. Without it, the object is gone.
                None if self.objects.contains_key(&key) => former.remove(&key),
                None => None,
            };
            written.extend(entry.map(|entry| (key, entry, write.lists)));
        }
        for entry in self.objects.values() {
            if let Some(uid) = &entry.metadata().uid {
                self.tombstones.take_back(uid);
            }
        }
        let known = former.iter();
        for (key, entry) in known.chain(written.iter().map(|(key, entry, _)| (key, entry))) {
            if !self.objects.contains_key(key)
                && let Some(uid) = &entry.metadata().uid
            {
                self.tombstones.add(uid);
            }
        }
        for (key, entry, lists) in written {
            if lists == self.lists
                && let Some(listed) = self.objects.get_mut(&key)
                && entry.is_newer(listed)
            {
                let reported = Some(mem::replace(listed, entry));
                self.written
                    .insert(key, UnreportedWrite { reported, lists });
            }
        }
        let entries = self.objects.values();
        self.undecodable = entries.filter(|entry| entry.is_undecodable()).count();
        for index in &mut self.indexes {
            index.replace(&self.objects);
        }
        former
    }

    /// Returns the version of each object that the list and the watch reported last. Writes that the watch has not
    /// reported yet are not included.
    pub(super) fn reported(&self) -> BTreeMap<NamespacedName, ObjectVersion> {
        let reported = self.objects.iter().filter_map(|(key, entry)| {
            let entry = match self.written.get(key) {
                Some(write) => write.reported.as_ref()?,
                None => entry,
            };
            Some((key.clone(), ObjectVersion::of(entry.metadata())))
        });
        reported.collect()
    }

    /// Adds an index, and returns its position.
    pub(super) fn add_index(&mut self, mut index: Values<K>) -> usize {
        index.replace(&self.objects);
        self.indexes.push(index);
        self.indexes.len() - 1
    }

    /// Returns each value of an index, sorted.
    pub(super) fn values(&self, index: usize) -> impl Iterator<Item = &str> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(Values::all)
    }

    /// Returns the first object of each value of an index that has this prefix.
    pub(super) fn first_of_values(
        &self,
        index: usize,
        prefix: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(move |index| index.first_of_each(prefix))
    }

    /// Returns the objects of the values of an index that have this prefix, in the order of the values.
    pub(super) fn with_prefix(
        &self,
        index: usize,
        prefix: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(move |index| index.with_prefix(prefix))
    }

    /// Returns the objects that have a value in an index.
    pub(super) fn indexed(
        &self,
        index: usize,
        value: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(move |index| index.get(value))
    }
}
