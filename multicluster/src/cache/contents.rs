//! The objects of a kind by namespace and name, and which of two versions stands.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use kube::Resource;

use super::entry::{CacheEntry, NamespacedName};
use super::tombstones::Tombstones;
use super::values::Values;

#[derive(Debug)]
pub(super) struct Contents<K> {
    pub(super) objects: BTreeMap<NamespacedName, CacheEntry<K>>,
    /// How many of the objects cannot be decoded.
    pub(super) undecodable: usize,
    gone: Tombstones,
    /// Objects as writes have returned them, of which the watch has not told yet.
    learned: HashMap<NamespacedName, Written<K>>,
    /// How many lists have begun.
    lists: u64,
    indexes: Vec<Values<K>>,
}

/// An object as a write has returned it, of which the watch has not told yet.
#[derive(Debug)]
struct Written<K> {
    /// The version that the watch has told of last, if there was one.
    told: Option<CacheEntry<K>>,
    /// How many lists had begun when it was learned.
    lists: u64,
}

impl<K> Default for Contents<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            undecodable: 0,
            gone: Tombstones::default(),
            learned: HashMap::new(),
            lists: 0,
            indexes: Vec::new(),
        }
    }
}

impl<K: Resource> Contents<K> {
    /// The objects of a namespace, by name.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &CacheEntry<K>> {
        let first = (namespace.to_owned(), String::new());
        self.objects
            .range(first..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, entry)| entry)
    }

    /// Takes in an object as a write has returned it, unless a later version is known already, or its end.
    pub(super) fn observe_write(&mut self, entry: CacheEntry<K>) {
        let uid = entry.metadata().uid.as_ref();
        if uid.is_some_and(|uid| self.gone.contains(uid)) {
            return;
        }
        let key = entry.key();
        let existing = self.objects.get(&key);
        if existing.is_some_and(|existing| existing.is_same_as(&entry)) {
            return;
        }
        if let Ok(former) = self.put(key.clone(), entry) {
            let lists = self.lists;
            let learned = self.learned.entry(key);
            let told = former;
            learned.or_insert(Written { told, lists }).lists = lists;
        }
    }

    /// Takes in a version that the watch tells of, unless a later one is known. Gives back the one that it told of before.
    pub(super) fn insert(&mut self, entry: CacheEntry<K>) -> Option<CacheEntry<K>> {
        let key = entry.key();
        // It has not gone: a list was only older than the object.
        if let Some(uid) = &entry.metadata().uid {
            self.gone.take_back(uid);
        }
        match self.put(key.clone(), entry) {
            Ok(former) => match self.learned.remove(&key) {
                Some(learned) => learned.told,
                None => former,
            },
            Err(older) => {
                let learned = self.learned.get_mut(&key);
                learned.and_then(|learned| learned.told.replace(older))
            }
        }
    }

    /// Puts an entry in the place of an older one, which it gives back; a newer one stays.
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

    /// Removes an object that the watch says is gone, but not a successor of the same name.
    pub(super) fn remove(&mut self, entry: &CacheEntry<K>) {
        let key = entry.key();
        let existing = self.objects.get(&key);
        if existing.is_some_and(|existing| existing.metadata().uid == entry.metadata().uid) {
            self.take_out(&key);
            self.learned.remove(&key);
        } else if let Some(learned) = self.learned.get_mut(&key) {
            learned.told = None;
        }
        if let Some(uid) = &entry.metadata().uid {
            self.gone.add(uid);
        }
    }

    /// Notes that a list begins.
    pub(super) fn begin_list(&mut self) {
        self.lists += 1;
    }

    /// Takes a complete list in the place of what was known, also where that is newer by its resource versions: an API
    /// server that was restored to an older state counts from there again. Gives back what the watch has told of before.
    ///
    /// Only what was written since the list began can be newer than the list. What the list does not have may have gone
    /// before it was made; if not, the watch brings it back.
    pub(super) fn replace(
        &mut self,
        listed: BTreeMap<NamespacedName, CacheEntry<K>>,
    ) -> BTreeMap<NamespacedName, CacheEntry<K>> {
        let mut former = mem::replace(&mut self.objects, listed);
        let mut written = Vec::new();
        for (key, learned) in mem::take(&mut self.learned) {
            let entry = match learned.told {
                Some(told) => former.insert(key.clone(), told),
                None => former.remove(&key),
            };
            written.extend(entry.map(|entry| (key, entry, learned.lists)));
        }
        for entry in self.objects.values() {
            if let Some(uid) = &entry.metadata().uid {
                self.gone.take_back(uid);
            }
        }
        let known = former.iter();
        for (key, entry) in known.chain(written.iter().map(|(key, entry, _)| (key, entry))) {
            if !self.objects.contains_key(key)
                && let Some(uid) = &entry.metadata().uid
            {
                self.gone.add(uid);
            }
        }
        for (key, entry, lists) in written {
            if lists == self.lists
                && let Some(listed) = self.objects.get_mut(&key)
                && entry.is_newer(listed)
            {
                let told = Some(mem::replace(listed, entry));
                self.learned.insert(key, Written { told, lists });
            }
        }
        let entries = self.objects.values();
        self.undecodable = entries.filter(|entry| entry.is_undecodable()).count();
        for index in &mut self.indexes {
            index.replace(&self.objects);
        }
        former
    }

    /// Adds an index, and says which one it is.
    pub(super) fn add_index(&mut self, mut index: Values<K>) -> usize {
        index.replace(&self.objects);
        self.indexes.push(index);
        self.indexes.len() - 1
    }

    /// The first object of each value of an index that begins like this.
    pub(super) fn first_of_values(
        &self,
        index: usize,
        prefix: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(move |index| index.first_of_each(prefix))
    }

    /// The objects that have a value in an index.
    pub(super) fn indexed(
        &self,
        index: usize,
        value: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let index = self.indexes.get(index).into_iter();
        index.flat_map(move |index| index.get(value))
    }
}
