//! Questions about the metadata of objects that every plan asks.

use std::collections::BTreeMap;

use api::{WorkloadDeployment, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};

/// A Namespace, of which only the metadata are read.
pub(crate) type Namespace = PartialObjectMeta<k8s_openapi::api::core::v1::Namespace>;

/// A Network, of which only the metadata are read.
pub(crate) type Network = PartialObjectMeta<api::networking::Network>;

/// Labels or annotations, by key.
pub(crate) type StringMap = BTreeMap<String, String>;

/// Whether deletion of the object has begun.
pub(crate) fn is_terminating(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether the object has this finalizer.
pub(crate) fn has_finalizer(object: &impl ResourceExt, finalizer: &str) -> bool {
    object
        .finalizers()
        .iter()
        .any(|existing| existing == finalizer)
}

/// Label and value by which our policies are known, whatever has become of their spec.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "compute-federation");

/// Whether a policy with this metadata is one of ours. Those of the baseline do not say so.
pub(crate) fn is_managed(policy: &ObjectMeta) -> bool {
    let labels = policy.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(MANAGED_BY.0));
    manager.is_some_and(|manager| manager == MANAGED_BY.1)
}

/// Whether every wanted key is there with its value. StringMap of other writers do not matter.
pub(crate) fn covers(existing: &StringMap, wanted: &StringMap) -> bool {
    wanted
        .iter()
        .all(|(key, value)| existing.get(key) == Some(value))
}

/// The value of a label; an empty one counts as missing.
pub(crate) fn label<'o>(object: &'o impl ResourceExt, key: &str) -> Option<&'o str> {
    object
        .labels()
        .get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

/// A controller reference to `owner`, as garbage collection wants it.
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

/// The UID of the object that controls this one.
pub(crate) fn controller_uid(object: &impl ResourceExt) -> Option<&str> {
    let owners = object.owner_references();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

/// The name of the controller of this kind that an object with this metadata has.
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

/// The hub namespace that an object of a project names as its own.
pub(crate) fn recorded_hub_namespace(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations
        .get(annotations::FEDERATION_NAMESPACE)
        .map(String::as_str)
}

/// The name of the WorkloadDeployment that an Instance belongs to: its controller's, or what its label says.
pub(crate) fn deployment_name(instance: &ObjectMeta) -> Option<&str> {
    controller_name::<WorkloadDeployment>(instance).or_else(|| {
        let keys = instance.labels.as_ref()?;
        keys.get(labels::WORKLOAD_DEPLOYMENT_NAME)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    })
}

/// `Kind namespace/name`, for messages.
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
    fn a_namespace_is_written_as_what_it_is_though_only_its_metadata_are_read() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}});
        let namespace: Namespace = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(to_value(namespace).unwrap(), body);
        let (version, kind) = (Namespace::api_version(&()), Namespace::kind(&()));
        assert_eq!((&*version, &*kind), ("v1", "Namespace"));
    }
}
