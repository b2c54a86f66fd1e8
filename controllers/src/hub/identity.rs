//! The identity of the hub: the UID of its Namespace `default` (docs/concepts/identity.md). The federator records it on
//! hub namespaces and on the projects' WorkloadDeployments. The answers of another hub prove nothing about objects with
//! this record (I-12).

use api::{DEFAULT_NAMESPACE, annotations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::cache::Change;

use crate::objects::Namespace;

/// How the values of `ProjectCaches::by_hub` begin for WorkloadDeployments that have been copied to a hub. The record of
/// the hub follows, if there is one.
pub(crate) const FEDERATED: &str = "federated/";
/// How they begin for WorkloadDeployments that have a record all the same. Whoever writes it can be a customer.
const NEW: &str = "new/";

/// The identity of the hub in use, and of the hubs that it replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HubIdentity {
    /// `None` if the hub's Namespace `default` is not known.
    uid: Option<String>,
    replaced: Vec<String>,
}

impl HubIdentity {
    /// Reads the identity from the hub's Namespace `default`.
    pub(crate) fn of(default: Option<&ObjectMeta>) -> Self {
        let uid = default.and_then(|default| default.uid.clone());
        let annotations = default.and_then(|default| default.annotations.as_ref());
        let replaced =
            annotations.and_then(|annotations| annotations.get(annotations::REPLACES_HUBS));
        let replaced = replaced
            .map_or("", String::as_str)
            .split(',')
            .map(str::trim);
        Self {
            uid: uid.filter(|uid| !uid.is_empty()),
            replaced: replaced
                .filter(|uid| !uid.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Returns whether a change of a Namespace of the hub changes the identity.
    pub(crate) fn is_changed_by(change: Change<'_>) -> bool {
        let of = |namespace: Option<&ObjectMeta>| {
            let is_default = |it: &&ObjectMeta| it.name.as_deref() == Some(DEFAULT_NAMESPACE);
            Self::of(namespace.filter(is_default))
        };
        of(change.former) != of(change.current)
    }

    /// Returns the UID, if it is known.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// Returns whether an operator has declared that this hub replaces another one.
    pub(crate) fn replaces_another(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Returns whether the record of an object names this hub, or a hub that this hub replaces.
    pub(crate) fn is_named_by(&self, record: &str) -> bool {
        self.uid() == Some(record) || self.replaced.iter().any(|replaced| replaced == record)
    }

    /// Returns the reason why this hub is not proved to be the hub that has the objects of a hub namespace, if there is
    /// a reason. `record` is the hub that the project's WorkloadDeployment has recorded. `namespace` is the hub
    /// namespace. An object from before hubs were recorded has no record. For such an object, the hub must have the hub
    /// namespace.
    pub(crate) fn contradiction(
        &self,
        record: Option<&str>,
        namespace: Option<&Namespace>,
    ) -> Option<String> {
        let key = annotations::HUB_UID;
        let Some(uid) = self.uid() else {
            return Some("the hub has no identity: its Namespace default has no UID".to_owned());
        };
        let of_namespace = namespace.and_then(|namespace| recorded_hub(namespace.meta()));
        match (record, of_namespace) {
            (Some(record), _) if !self.is_named_by(record) => Some(format!(
                "annotation {key} names hub {record}, the hub in use is {uid}"
            )),
            (_, Some(record)) if !self.is_named_by(record) => Some(format!(
                "annotation {key} of the hub namespace names hub {record}, the hub in use is {uid}"
            )),
            (None, _) if namespace.is_none() => Some(format!(
                "annotation {key} is missing, and the hub in use, {uid}, does not have the hub namespace"
            )),
            _ => None,
        }
    }
}

/// Returns the hub that an object has recorded.
pub(crate) fn recorded_hub(metadata: &ObjectMeta) -> Option<&str> {
    let annotations = metadata.annotations.as_ref()?;
    let recorded = annotations.get(annotations::HUB_UID).map(String::as_str);
    recorded.filter(|recorded| !recorded.is_empty())
}

/// Returns whether a WorkloadDeployment with this metadata has been copied to a hub, or is about to be.
pub(crate) fn is_federated(deployment: &ObjectMeta) -> bool {
    let mut finalizers = deployment.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == api::finalizers::FEDERATOR)
}

/// Returns the value of `ProjectCaches::by_hub` for a WorkloadDeployment.
pub(crate) fn hub_of<K: Resource>(deployment: &K) -> Vec<String> {
    hub_of_metadata(deployment.meta())
}

/// Returns the value of `ProjectCaches::by_hub` for a WorkloadDeployment with this metadata.
pub(crate) fn hub_of_metadata(metadata: &ObjectMeta) -> Vec<String> {
    let value = match (is_federated(metadata), recorded_hub(metadata)) {
        (true, record) => Some(format!("{FEDERATED}{}", record.unwrap_or_default())),
        (false, record) => record.map(|record| format!("{NEW}{record}")),
    };
    value.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    fn identity(uid: Option<&str>, replaced: Option<&str>) -> HubIdentity {
        HubIdentity::of(Some(&object(json!({
            "uid": uid, "annotations": replaced.map(|uids| json!({annotations::REPLACES_HUBS: uids})),
        }))))
    }

    fn namespace(recorded: Option<&str>) -> Namespace {
        let annotations = recorded.map(|uid| json!({annotations::HUB_UID: uid}));
        object(json!({"metadata": {"name": "ns-1", "annotations": annotations}}))
    }

    #[test]
    fn a_hub_is_named_by_its_uid_and_by_those_that_it_replaces() {
        for (replaced, record, expected) in [
            (None, "a", true),
            (None, "b", false),
            (None, "", false),
            (Some("b"), "a", true),
            (Some("b"), "b", true),
            (Some(" c ,b,"), "b", true),
            (Some(" c ,b,"), "c", true),
            (Some(" c ,b,"), "", false),
            (Some("bc"), "b", false),
        ] {
            let identity = identity(Some("a"), replaced);
            assert_eq!(
                identity.is_named_by(record),
                expected,
                "{replaced:?} {record}"
            );
        }
    }

    #[test]
    fn only_the_recorded_hub_proves_something() {
        let (plain, own, other) = (namespace(None), namespace(Some("a")), namespace(Some("x")));
        for (uid, record, namespace, holds) in [
            (Some("a"), Some("a"), None, false),
            (Some("a"), Some("a"), Some(&plain), false),
            (Some("a"), Some("a"), Some(&own), false),
            (Some("a"), Some("b"), Some(&own), false),
            (Some("a"), Some("x"), None, true),
            (Some("a"), Some("x"), Some(&own), true),
            (Some("a"), Some("a"), Some(&other), true),
            // The object is from before hubs were recorded.
            (Some("a"), None, Some(&plain), false),
            (Some("a"), None, Some(&own), false),
            (Some("a"), None, Some(&other), true),
            (Some("a"), None, None, true),
            // The hub is unknown.
            (None, Some("a"), Some(&own), true),
            (Some(""), Some("a"), Some(&own), true),
            (None, None, Some(&plain), true),
        ] {
            let problem = identity(uid, Some("b")).contradiction(record, namespace);
            assert_eq!(
                problem.is_some(),
                holds,
                "{uid:?} {record:?} {namespace:?}: {problem:?}"
            );
        }
        assert!(
            HubIdentity::of(None)
                .contradiction(Some("a"), None)
                .is_some()
        );
    }
}
