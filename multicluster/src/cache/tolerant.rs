//! Decodes lists in which some objects cannot be decoded.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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
        let tree = Value::deserialize(deserializer)?;
        let decoded = match K::deserialize(&tree) {
            Ok(object) => Ok(object),
            Err(error) => {
                let partial =
                    PartialObjectMeta::<K>::deserialize(&tree).map_err(D::Error::custom)?;
                Err(InvalidObject {
                    error: error.to_string(),
                    metadata: partial.metadata,
                })
            }
        };
        Ok(Self(DeserializeGuard(decoded)))
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

    #[test]
    fn an_object_without_metadata_fails_the_list() {
        let read = serde_json::from_str::<Tolerant<ConfigMap>>(r#"{"metadata":7}"#);
        assert!(read.is_err());
    }
}
