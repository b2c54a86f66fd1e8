//! Functions that read or build the metadata of objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{WorkloadDeployment, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::PartialObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};
use serde_json::Value;

/// A Namespace with only its metadata.
pub(crate) type Namespace = PartialObjectMeta<k8s_openapi::api::core::v1::Namespace>;

/// A Network with only its metadata.
pub(crate) type Network = PartialObjectMeta<api::networking::Network>;

/// Labels or annotations, by key.
pub(crate) type StringMap = BTreeMap<String, String>;

/// Returns whether the object is being deleted.
pub(crate) fn is_terminating(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Returns whether the object has this finalizer.
pub(crate) fn has_finalizer(object: &impl ResourceExt, finalizer: &str) -> bool {
    object
        .finalizers()
        .iter()
        .any(|existing| existing == finalizer)
}

/// The label that identifies our policies, and its value. It works also after the spec of the policy was edited.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "compute-federation");

/// Returns whether a policy with this metadata is one of ours. Policies of the Go manager do not have the label.
pub(crate) fn is_managed(policy: &ObjectMeta) -> bool {
    let labels = policy.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(MANAGED_BY.0));
    manager.is_some_and(|manager| manager == MANAGED_BY.1)
}

/// Returns whether every wanted key exists with its value. Other keys do not matter.
pub(crate) fn covers(existing: &StringMap, wanted: &StringMap) -> bool {
    wanted
        .iter()
        .all(|(key, value)| existing.get(key) == Some(value))
}

/// Returns whether `value` has every field of `wanted`. Other fields do not matter: an API server adds defaults.
pub(crate) fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(fields), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| fields.get(key).is_some_and(|value| contains(value, wanted))),
        (Value::Array(items), Value::Array(wanted)) => {
            items.len() == wanted.len()
                && items
                    .iter()
                    .zip(wanted)
                    .all(|(item, wanted)| contains(item, wanted))
        }
        _ => value == wanted,
    }
}

/// Returns the value of a label. An empty value counts as missing.
pub(crate) fn label<'o>(object: &'o impl ResourceExt, key: &str) -> Option<&'o str> {
    object
        .labels()
        .get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

/// Returns a controller reference to `owner`, for garbage collection.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
    }
}

/// Returns a reference to `owner`, for garbage collection. The object does not hold up the deletion of its owner.
pub(crate) fn owner_reference<K: Resource<DynamicType = ()>>(
    owner: &K,
    is_controller: bool,
) -> OwnerReference {
    OwnerReference {
        block_owner_deletion: None,
        controller: is_controller.then_some(true),
        ..controller_reference(owner)
    }
}

/// Returns the UID of the controller of the object.
pub(crate) fn controller_uid(object: &impl ResourceExt) -> Option<&str> {
    controller_uid_of(object.meta())
}

/// Returns the UID of the controller of an object with this metadata.
pub(crate) fn controller_uid_of(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

/// Returns the name of the controller of an object with this metadata, if the controller is of kind `K`.
pub(crate) fn controller_name<K: Resource<DynamicType = ()>>(
    metadata: &ObjectMeta,
) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == K::kind(&())
            && owner.api_version == K::api_version(&())
    });
    owner.map(|owner| owner.name.as_str())
}

/// Returns the hub namespace that an object of a project has recorded.
pub(crate) fn recorded_hub_namespace(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations
        .get(annotations::FEDERATION_NAMESPACE)
        .map(String::as_str)
}

/// Returns the name of the WorkloadDeployment of an Instance. This is the name of its controller owner. Without one, it
/// is the value of its label.
pub(crate) fn deployment_name(instance: &ObjectMeta) -> Option<&str> {
    controller_name::<WorkloadDeployment>(instance).or_else(|| {
        let keys = instance.labels.as_ref()?;
        keys.get(labels::WORKLOAD_DEPLOYMENT_NAME)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    })
}

/// Longest error of an object that cannot be decoded that a condition contains, in characters.
const PROBLEM_MAX: usize = 256;

/// Returns a sentence for users about an object that cannot be decoded.
pub(crate) fn describe_undecodable<K: Resource<DynamicType = ()>>(
    invalid: &InvalidObject,
) -> String {
    let name = invalid.metadata.name.as_deref().unwrap_or_default();
    let problem: String = invalid.error.chars().take(PROBLEM_MAX).collect();
    format!("{} {name} cannot be decoded: {problem}", K::kind(&()))
}

/// Returns the object of this name, if it is one of those that cannot be decoded.
pub(crate) fn undecodable_of_name<'i>(
    undecodable: &'i [Arc<InvalidObject>],
    name: &str,
) -> Option<&'i Arc<InvalidObject>> {
    let mut undecodable = undecodable.iter();
    undecodable.find(|it| it.metadata.name.as_deref() == Some(name))
}

/// Returns `Kind namespace/name`, for messages.
pub(crate) fn describe<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let (namespace, name) = (
        object.meta().namespace.as_deref(),
        object.meta().name.as_deref(),
    );
    format!(
        "{} {}/{}",
        K::kind(&()),
        namespace.unwrap_or_default(),
        name.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_metadata_only_namespace_is_serialized_as_a_namespace() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}});
        let namespace: Namespace = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(to_value(namespace).unwrap(), body);
        let (version, kind) = (Namespace::api_version(&()), Namespace::kind(&()));
        assert_eq!((&*version, &*kind), ("v1", "Namespace"));
    }
}
