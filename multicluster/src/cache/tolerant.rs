//! Decodes lists in which some objects cannot be decoded.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Deepest nesting of an object. serde_json gives up after 128 levels, and then the whole list is lost.
const DEPTH: usize = 64;
/// The field of the metadata whose content a client chooses freely when it creates an object.
const MANAGED_FIELDS: &str = "managedFields";

/// A [`DeserializeGuard`] that decodes without a copy, and that requests only metadata of a `PartialObjectMeta`.
///
/// It works around two limitations of `DeserializeGuard` in kube-core 5.0.0 (`error_boundary.rs`):
///
/// - It reads each object into a tree (`serde_value::Value`) and decodes from a clone of that tree, because it needs
///   the tree again if decoding fails. Here `K` is decoded from a reference to the tree.
/// - Its `Resource` does not forward `metadata_api()`, so a guard of `PartialObjectMeta` fetches whole objects.
///
/// Decoding from a tree instead of text is intended. From a tree, serde knows the lengths of lists and allocates
/// exactly. The objects stay in memory. If they were decoded from text, they would use a third more memory.
///
/// Delete this type once `DeserializeGuard` decodes by reference and forwards `metadata_api()`.
#[derive(Clone, Debug)]
pub(super) struct Tolerant<K>(pub(super) DeserializeGuard<K>);

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_too_deep = Cell::new(false);
        let tree = Tree {
            depth: 0,
            is_too_deep: &is_too_deep,
        };
        let mut tree = tree.deserialize(deserializer)?;
        let decoded = match K::deserialize(&tree) {
            Ok(_) if is_too_deep.get() => {
                Err(format!("it is nested more than {DEPTH} levels deep"))
            }
            decoded => decoded.map_err(|error| error.to_string()),
        };
        let decoded = match decoded {
            Ok(object) => Ok(object),
            Err(error) => Err(InvalidObject {
                error,
                metadata: metadata::<K, D::Error>(&mut tree)?,
            }),
        };
        Ok(Self(DeserializeGuard(decoded)))
    }
}

/// Returns the metadata of an object that cannot be decoded. `managedFields` is left out, because an API server stores
/// what the client sends there: times that Rust cannot represent, for example.
fn metadata<K, E: Error>(tree: &mut Value) -> Result<ObjectMeta, E> {
    if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(MANAGED_FIELDS);
    }
    let partial = PartialObjectMeta::<K>::deserialize(&*tree);
    Ok(partial.map_err(E::custom)?.metadata)
}

/// Reads an object into a tree. Leaves out what is nested too deeply.
#[derive(Clone, Copy)]
struct Tree<'t> {
    depth: usize,
    is_too_deep: &'t Cell<bool>,
}

impl Tree<'_> {
    fn below(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > DEPTH {
            self.is_too_deep.set(true);
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self.below())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key()? {
            object.insert(key, fields.next_value_seed(self.below())?);
        }
        Ok(Value::Object(object))
    }
}

impl<K: Resource> Resource for Tolerant<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic_type)
    }

    fn group(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic_type)
    }

    fn version(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic_type)
    }

    fn plural(dynamic_type: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic_type)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectList;
    use kube::core::WatchEvent;

    use super::*;

    const METADATA: &str = r#""metadata":{"namespace":"ns","name":"a","resourceVersion":"7"}"#;

    fn object(more: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap",{METADATA}{more}}}"#)
    }

    #[test]
    fn an_object_that_cannot_be_decoded_leaves_its_metadata_and_the_others() {
        let (good, bad) = (object(r#","data":{"k":"v"}"#), object(r#","data":[1]"#));
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{"resourceVersion":"8"}},"items":[{bad},{good}]}}"#
        );
        let list: ObjectList<Tolerant<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let watched = [good, bad].map(|object| {
            let event = format!(r#"{{"object":{object},"type":"MODIFIED"}}"#);
            match serde_json::from_str::<WatchEvent<Tolerant<ConfigMap>>>(&event) {
                Ok(WatchEvent::Modified(object)) => object,
                other => panic!("{other:?}"),
            }
        });
        for [good, bad] in [[&list.items[1], &list.items[0]], watched.each_ref()] {
            let data = good.0.0.as_ref().unwrap().data.as_ref().unwrap();
            assert_eq!(data["k"], "v");
            let invalid = bad.0.0.as_ref().unwrap_err();
            assert!(invalid.error.ends_with("expected a map"), "{invalid}");
            assert_eq!(bad.meta().name.as_deref(), Some("a"));
            assert_eq!(bad.meta().resource_version.as_deref(), Some("7"));
        }
    }

    /// A client can store these `managedFields` in every API server.
    #[test]
    fn an_object_with_odd_managed_fields_leaves_its_metadata_and_the_others() {
        let deep = format!("{}1{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
        let late = r#"[{"manager":"x","operation":"Update","time":"9999-12-31T23:59:59Z"}]"#;
        let deep = format!(r#"[{{"manager":"x","operation":"Update","fieldsV1":{deep}}}]"#);
        for (managed, problem) in [
            (late, "not in the required range"),
            (&deep, "64 levels deep"),
        ] {
            let metadata = METADATA.trim_end_matches('}');
            let bad = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap",{metadata},"managedFields":{managed}}}}}"#
            );
            let good = object("");
            let list =
                format!(r#"{{"metadata":{{"resourceVersion":"8"}},"items":[{bad},{good}]}}"#);
            let list: ObjectList<Tolerant<ConfigMap>> = serde_json::from_str(&list).unwrap();
            assert!(list.items[1].0.0.is_ok());
            let invalid = list.items[0].0.0.as_ref().unwrap_err();
            assert!(invalid.error.contains(problem), "{invalid}");
            assert_eq!(invalid.metadata.resource_version.as_deref(), Some("7"));
            let event = format!(r#"{{"type":"ADDED","object":{bad}}}"#);
            let event: WatchEvent<Tolerant<PartialObjectMeta<ConfigMap>>> =
                serde_json::from_str(&event).unwrap();
            assert!(matches!(event, WatchEvent::Added(bad) if bad.0.0.is_err()));
        }
    }

    #[test]
    fn a_tree_is_that_of_serde_json() {
        let text =
            r#"{"a":[1,-2,3.5,1e3,"x\n",null,true,{}],"b":{"c":[]},"d":18446744073709551615}"#;
        let is_too_deep = Cell::new(false);
        let tree = Tree {
            depth: 0,
            is_too_deep: &is_too_deep,
        };
        let read = tree.deserialize(&mut serde_json::Deserializer::from_str(text));
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!((read.unwrap(), is_too_deep.get()), (expected, false));
    }

    #[test]
    fn an_object_without_metadata_fails_the_list() {
        let read = serde_json::from_str::<Tolerant<ConfigMap>>(r#"{"metadata":7}"#);
        assert!(read.is_err());
    }
}
