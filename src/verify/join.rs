//! Joins the objects of the hub with their ResourceBindings, while both are read page by page.
//!
//! An API server lists objects in the order of `namespace/name`. The name of a binding begins with the name of its
//! object, so both lists have almost the same order, and few objects wait for their partner.

use std::collections::BTreeMap;
use std::{fmt, mem};

use api::karmada::ResourceBinding;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A list that is read page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Objects,
    Bindings,
}

/// An object as the API server sends it.
#[derive(Debug)]
pub(super) struct ObjectText {
    namespace: String,
    name: String,
    /// The object as JSON. The thread that compares it decodes it.
    pub(super) json: Box<RawValue>,
}

impl fmt::Display for ObjectText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Key,
        }
        #[derive(Deserialize)]
        struct Key {
            #[serde(default)]
            namespace: String,
            name: String,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let named: Named = serde_json::from_str(json.get()).map_err(serde::de::Error::custom)?;
        let Key { namespace, name } = named.metadata;
        Ok(Self {
            namespace,
            name,
            json,
        })
    }
}

/// An object and its binding. An object without a policy has no binding.
pub(super) type Joined = (ObjectText, Option<ResourceBinding>);

/// The state of one list.
#[derive(Debug, Default)]
struct Progress {
    /// The `namespace/name` of the last element.
    last: String,
    is_complete: bool,
    /// Whether all elements came in order. Otherwise an absence is known only at the end.
    is_sorted: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            is_sorted: true,
            ..Self::default()
        }
    }

    fn advance(&mut self, key: &str) {
        self.is_sorted &= self.last.as_str() <= key;
        key.clone_into(&mut self.last);
    }

    /// Returns whether the list has passed this key.
    fn has_passed(&self, key: &str) -> bool {
        self.is_complete || self.is_sorted && self.last.as_str() >= key
    }
}

/// The objects and bindings that wait for their partner.
#[derive(Debug)]
pub(super) struct Join {
    /// Name of the kind, in lower case.
    kind: String,
    objects: Progress,
    bindings: Progress,
    /// Both by `namespace/name` of the binding.
    waiting_objects: BTreeMap<String, ObjectText>,
    /// With the key of the object.
    waiting_bindings: BTreeMap<String, (String, ResourceBinding)>,
    joined: Vec<Joined>,
}

impl Join {
    pub(super) fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_lowercase(),
            objects: Progress::new(),
            bindings: Progress::new(),
            waiting_objects: BTreeMap::new(),
            waiting_bindings: BTreeMap::new(),
            joined: Vec::new(),
        }
    }

    /// Returns the list of which the next page is needed. `None` if both are complete.
    pub(super) fn next(&self) -> Option<List> {
        match (self.objects.is_complete, self.bindings.is_complete) {
            (true, true) => None,
            (false, true) => Some(List::Objects),
            (false, false) if self.objects.last <= self.bindings.last => Some(List::Objects),
            (true | false, false) => Some(List::Bindings),
        }
    }

    /// Adds a page of objects.
    pub(super) fn add_objects(&mut self, page: Vec<ObjectText>, is_last: bool) {
        for object in page {
            let ObjectText {
                namespace, name, ..
            } = &object;
            self.objects.advance(&format!("{namespace}/{name}"));
            let key = format!("{namespace}/{name}-{}", self.kind);
            match self.waiting_bindings.remove(&key) {
                Some((_, binding)) => self.joined.push((object, Some(binding))),
                None => drop(self.waiting_objects.insert(key, object)),
            }
        }
        self.objects.is_complete |= is_last;
        self.release();
    }

    /// Adds a page of bindings. Bindings of other kinds are dropped.
    pub(super) fn add_bindings(&mut self, page: Vec<ResourceBinding>, is_last: bool) {
        for binding in page {
            let namespace = binding.namespace().unwrap_or_default();
            let key = format!("{namespace}/{}", binding.name_any());
            self.bindings.advance(&key);
            let resource = &binding.spec.resource;
            if resource.kind.to_lowercase() != self.kind
                || !resource.api_version.starts_with(api::GROUP)
            {
                continue;
            }
            match self.waiting_objects.remove(&key) {
                Some(object) => self.joined.push((object, Some(binding))),
                None => {
                    let of_object = format!("{namespace}/{}", resource.name);
                    self.waiting_bindings.insert(key, (of_object, binding));
                }
            }
        }
        self.bindings.is_complete |= is_last;
        self.release();
    }

    /// Joins the objects that have no binding, and drops the bindings that have no object.
    fn release(&mut self) {
        let is_unbound = |key: &String| self.bindings.has_passed(key);
        let unbound: Vec<_> = self
            .waiting_objects
            .keys()
            .filter(|key| is_unbound(key))
            .cloned()
            .collect();
        for key in unbound {
            let object = self.waiting_objects.remove(&key);
            self.joined.extend(object.map(|object| (object, None)));
        }
        let objects = &self.objects;
        self.waiting_bindings
            .retain(|_, (of_object, _)| !objects.has_passed(of_object));
    }

    /// Takes what was joined.
    pub(super) fn take(&mut self) -> Vec<Joined> {
        mem::take(&mut self.joined)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> ObjectText {
        let object = json!({"metadata": {"namespace": "ns", "name": name}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn binding(kind: &str, name: &str) -> ResourceBinding {
        serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"namespace": "ns", "name": format!("{name}-{}", kind.to_lowercase())},
            "spec": {"resource": {"apiVersion": api::API_VERSION, "kind": kind, "namespace": "ns", "name": name}},
        }))
        .unwrap()
    }

    fn names(joined: &[Joined]) -> Vec<(String, bool)> {
        let name = |(object, binding): &Joined| (object.name.clone(), binding.is_some());
        joined.iter().map(name).collect()
    }

    /// "web" comes before "web-2", but "web-2-instance" comes before "web-instance".
    #[test]
    fn names_that_begin_with_another_name_are_joined() {
        let mut join = Join::new("Instance");
        assert_eq!(join.next(), Some(List::Objects));
        join.add_objects(vec![object("web")], false);
        assert_eq!(join.next(), Some(List::Bindings));
        join.add_bindings(
            vec![binding("ConfigMap", "a"), binding("Instance", "web-2")],
            false,
        );
        assert!(join.take().is_empty());
        join.add_bindings(vec![binding("Instance", "web")], false);
        assert_eq!(names(&join.take()), [("web".to_owned(), true)]);
        join.add_objects(vec![object("web-2")], true);
        assert_eq!(names(&join.take()), [("web-2".to_owned(), true)]);
        assert_eq!(join.next(), Some(List::Bindings));
        join.add_bindings(vec![], true);
        assert_eq!(join.next(), None);
    }

    #[test]
    fn an_object_without_binding_waits_until_the_bindings_have_passed_it() {
        let mut join = Join::new("Instance");
        join.add_objects(vec![object("a"), object("b")], false);
        assert!(join.take().is_empty());
        join.add_bindings(vec![binding("Instance", "b")], false);
        let expected = [("b".to_owned(), true), ("a".to_owned(), false)];
        assert_eq!(names(&join.take()), expected);
        // An orphan is dropped.
        join.add_bindings(vec![binding("Instance", "c")], true);
        join.add_objects(vec![object("d")], true);
        assert_eq!(names(&join.take()), [("d".to_owned(), false)]);
        assert!(join.waiting_bindings.is_empty());
    }

    #[test]
    fn lists_without_order_are_joined_at_the_end() {
        let mut join = Join::new("Instance");
        join.add_objects(vec![object("b"), object("a"), object("c")], true);
        join.add_bindings(
            vec![binding("Instance", "c"), binding("Instance", "a")],
            false,
        );
        let expected = [("c".to_owned(), true), ("a".to_owned(), true)];
        assert_eq!(names(&join.take()), expected);
        join.add_bindings(vec![binding("Instance", "b")], true);
        assert_eq!(names(&join.take()), [("b".to_owned(), true)]);
    }
}
