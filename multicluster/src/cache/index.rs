//! An index of a cache: finds objects by a value that is computed from each object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;

use super::entry::{CacheEntry, NamespacedName};
use super::handle::Cache;
use super::values::Values;

/// Finds the objects of a cache by a value. The index changes under the same lock as the objects, so the index always
/// matches the objects. Cheap to clone.
///
/// An index that reads metadata also finds objects that cannot be decoded, by the values of their metadata. An index
/// that does not read metadata does not find these objects, although they exist.
#[derive(Debug)]
pub struct Index<K> {
    cache: Cache<K>,
    position: usize,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            position: self.position,
        }
    }
}

impl<K: Resource> Index<K> {
    /// Adds an index to a cache.
    pub(super) fn new(cache: Cache<K>, values: Values<K>) -> Self {
        let position = cache.inner.write().add_index(values);
        Self { cache, position }
    }

    /// Returns the objects that have this value and can be decoded, sorted by namespace and name.
    pub fn get(&self, value: &str) -> Vec<Arc<K>> {
        let contents = self.cache.inner.read();
        let keys = contents.indexed(self.position, value);
        let entries = keys.filter_map(|key| contents.objects.get(key));
        entries.filter_map(CacheEntry::readable).collect()
    }

    /// Returns the objects that have this value: first those that can be decoded, then those that cannot. Both are
    /// sorted by namespace and name, and are of the same time.
    pub fn partitioned(&self, value: &str) -> (Vec<Arc<K>>, Vec<Arc<InvalidObject>>) {
        let contents = self.cache.inner.read();
        let keys = contents.indexed(self.position, value);
        let entries: Vec<_> = keys.filter_map(|key| contents.objects.get(key)).collect();
        let entries = entries.iter();
        (
            entries
                .clone()
                .filter_map(|entry| entry.readable())
                .collect(),
            entries.filter_map(|entry| entry.invalid()).collect(),
        )
    }

    /// Returns each value that an object has, sorted.
    pub fn values(&self) -> Vec<String> {
        let contents = self.cache.inner.read();
        contents.values(self.position).map(str::to_owned).collect()
    }

    /// Calls `visit` for one object of each value with this prefix. The arguments are the metadata of the object, and
    /// the object if it can be decoded. The cache is locked during the calls, so `visit` must be short and must not use
    /// the cache.
    pub fn visit_values(&self, prefix: &str, mut visit: impl FnMut(&ObjectMeta, Option<&K>)) {
        let contents = self.cache.inner.read();
        for key in contents.first_of_values(self.position, prefix) {
            match contents.objects.get(key) {
                Some(CacheEntry::Decoded(object)) => visit(object.meta(), Some(object)),
                Some(CacheEntry::Undecodable(invalid)) => visit(&invalid.metadata, None),
                None => {}
            }
        }
    }

    /// Returns namespace and name of the objects with the lowest values that have this prefix, in the order of their
    /// values. At most `max` objects are visited.
    pub fn lowest(&self, prefix: &str, max: usize) -> Vec<NamespacedName> {
        let contents = self.cache.inner.read();
        let lowest = contents.with_prefix(self.position, prefix);
        lowest.take(max).cloned().collect()
    }

    /// Returns the namespace and name of each object that has this value, sorted.
    pub fn keys(&self, value: &str) -> Vec<NamespacedName> {
        let contents = self.cache.inner.read();
        contents.indexed(self.position, value).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    fn entry(name: &str, version: u32, colours: &Value) -> CacheEntry<ConfigMap> {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
        let object = json!({"metadata": metadata, "data": colours});
        CacheEntry::Decoded(Arc::new(serde_json::from_value(object).unwrap()))
    }

    fn undecodable(name: &str, version: u32) -> CacheEntry<ConfigMap> {
        let CacheEntry::Decoded(object) = entry(name, version, &json!({})) else {
            unreachable!()
        };
        let (metadata, error) = (object.metadata.clone(), "broken".to_owned());
        let invalid = InvalidObject { error, metadata };
        CacheEntry::Undecodable(Arc::new(invalid))
    }

    fn colours(object: &ConfigMap) -> Vec<String> {
        let data = object.data.clone().unwrap_or_default();
        data.into_values().collect()
    }

    #[test]
    fn one_object_of_each_value_is_visited() {
        let cache = Cache::<ConfigMap>::default();
        let of_unreadable = |_: &ObjectMeta| vec!["n/broken".to_owned()];
        let index = Index::new(cache.clone(), Values::new(colours, of_unreadable));
        for (name, colour) in [
            ("a", "n/red"),
            ("b", "n/red"),
            ("c", "n/blue"),
            ("d", "m/red"),
        ] {
            let entry = entry(name, 1, &json!({"x": colour}));
            cache.inner.write().insert(entry);
        }
        for name in ["e", "f"] {
            cache.inner.write().insert(undecodable(name, 1));
        }
        let mut shown = Vec::new();
        index.visit_values("n/", |metadata, object| {
            shown.push((metadata.name.clone().unwrap(), object.is_some()));
        });
        shown.sort();
        let expected = [("a", true), ("c", true), ("e", false)];
        assert_eq!(
            shown,
            expected.map(|(name, is_read)| (name.to_owned(), is_read))
        );
    }

    #[test]
    fn the_lowest_values_with_a_prefix_are_in_their_order() {
        let cache = Cache::<ConfigMap>::default();
        let index = Index::new(cache.clone(), Values::new(colours, |_| Vec::new()));
        for (name, value) in [
            ("a", "n/3"),
            ("b", "n/1"),
            ("c", "n/1"),
            ("d", "n/2"),
            ("e", "m/0"),
        ] {
            let entry = entry(name, 1, &json!({"x": value}));
            cache.inner.write().insert(entry);
        }
        let lowest = |max| {
            let lowest = index.lowest("n/", max).into_iter();
            lowest.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!((lowest(3), lowest(9)), ("b c d".into(), "b c d a".into()));
    }

    #[test]
    fn an_index_follows_its_cache() {
        let cache = Cache::<ConfigMap>::default();
        let CacheEntry::Decoded(written) = entry("a", 1, &json!({"x": "red"})) else {
            unreachable!()
        };
        cache.observe_write(Arc::unwrap_or_clone(written));
        let index = Index::new(cache.clone(), Values::new(colours, |_| Vec::new()));
        let names = |value: &str| {
            let keys: Vec<_> = index.keys(value).into_iter().map(|key| key.1).collect();
            let objects = index.get(value).into_iter();
            let objects: Vec<_> = objects.filter_map(|it| it.metadata.name.clone()).collect();
            assert_eq!(keys, objects);
            keys.join(" ")
        };
        let insert = |entry| {
            cache.inner.write().insert(entry);
        };
        assert_eq!(names("red"), "a");
        insert(entry("b", 2, &json!({"x": "red", "y": "blue"})));
        assert_eq!((names("red"), names("blue")), ("a b".into(), "b".into()));
        insert(entry("a", 3, &json!({"x": "blue"})));
        assert_eq!((names("red"), names("blue")), ("b".into(), "a b".into()));
        // An older version changes nothing.
        insert(entry("a", 1, &json!({"x": "red"})));
        assert_eq!(names("red"), "b");
        insert(undecodable("a", 4));
        assert_eq!(names("blue"), "b");
        insert(entry("a", 5, &json!({"x": "blue"})));
        let gone = entry("b", 6, &json!({}));
        cache.inner.write().remove(&gone);
        assert_eq!((names("red"), names("blue")), (String::new(), "a".into()));
        // An object is written while a list is made.
        cache.inner.write().begin_list();
        cache
            .inner
            .write()
            .observe_write(entry("c", 8, &json!({"x": "green"})));
        let listed = [
            entry("c", 7, &json!({"x": "red"})),
            entry("d", 6, &json!({"x": "red"})),
        ];
        let listed = listed.map(|entry| (entry.key(), entry));
        cache.inner.write().replace(BTreeMap::from(listed));
        let found = ["red", "green", "blue"].map(names);
        assert_eq!(found, ["d", "c", ""]);
    }

    #[test]
    fn an_undecodable_object_is_found_by_its_metadata() {
        let cache = Cache::<ConfigMap>::default();
        let by_name = |metadata: &ObjectMeta| metadata.name.clone().into_iter().collect();
        let index = Index::new(cache.clone(), Values::new(colours, by_name));
        let insert = |entry| {
            cache.inner.write().insert(entry);
        };
        insert(undecodable("a", 1));
        insert(entry("b", 2, &json!({"x": "red"})));
        assert_eq!(index.keys("a").len(), 1);
        let counts = |value: &str| {
            let (decoded, undecodable) = index.partitioned(value);
            assert_eq!(decoded.len(), index.get(value).len());
            (decoded.len(), undecodable.len())
        };
        assert_eq!((counts("a"), counts("red")), ((0, 1), (1, 0)));
        insert(entry("a", 3, &json!({"x": "red"})));
        assert_eq!((counts("a"), counts("red")), ((0, 0), (2, 0)));
    }
}
