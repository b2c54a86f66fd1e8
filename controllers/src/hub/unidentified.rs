//! Reports hub namespaces that contain our objects but whose labels identify no project (I-6). Nothing in such a hub
//! namespace is reconciled.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::identity::IdentityError;
use api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use multicluster::Metrics;
use tracing::error;

use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::objects::is_managed;

/// The values of the two labels that identify a hub namespace.
type IdentityLabels = [Option<String>; 2];

/// Logs each hub namespace without a valid identity once, and again when its identity labels change. The metric counts
/// these namespaces.
pub(crate) struct UnidentifiedNamespaces {
    metrics: Metrics,
    reported: Mutex<BTreeMap<String, IdentityLabels>>,
}

impl UnidentifiedNamespaces {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            reported: Mutex::default(),
        }
    }

    /// Checks a hub namespace that changed, was deleted, or was replaced by another Namespace of the same name.
    pub(crate) fn namespace_changed(&self, hub: &HubCaches, namespace: &ObjectMeta) {
        let name = namespace.name.as_deref().unwrap_or_default();
        let current = hub.namespaces.get("", name).ok().flatten();
        if current.and_then(|current| current.uid()) != namespace.uid {
            self.settle(namespace);
        }
        self.check(hub, name);
    }

    /// Reports a hub namespace without an identity if it contains our objects or has one of our labels. Removes any
    /// other hub namespace from the count.
    pub(crate) fn check(&self, hub: &HubCaches, namespace: &str) {
        // If the namespace is not in the cache, a later event for it calls this check again. If the namespace is
        // undecodable, the cache has already reported it.
        let Ok(Some(namespace)) = hub.namespaces.get("", namespace) else {
            return;
        };
        let namespace = namespace.meta();
        match Upstream::of(namespace) {
            Err(problem) if has_identity_label(namespace) || holds_ours(hub, namespace) => {
                self.report(namespace, &problem);
            }
            _ => self.settle(namespace),
        }
    }

    /// Reports the namespace unless it was already reported with the same labels. Returns whether it was reported now.
    fn report(&self, namespace: &ObjectMeta, problem: &IdentityError) -> bool {
        let uid = namespace.uid.clone().unwrap_or_default();
        let labels = identity_labels(namespace);
        let news = self.count(|reported| reported.insert(uid, labels.clone()) != Some(labels));
        if news {
            let name = namespace.name.as_deref();
            error!(name, %problem, "hub namespace has no valid identity: nothing in it is reconciled");
        }
        news
    }

    /// Removes the namespace from the count.
    fn settle(&self, namespace: &ObjectMeta) {
        if let Some(uid) = &namespace.uid {
            self.count(|reported| reported.remove(uid));
        }
    }

    fn count<T>(&self, change: impl FnOnce(&mut BTreeMap<String, IdentityLabels>) -> T) -> T {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut reported);
        self.metrics.unidentified_namespaces(reported.len());
        changed
    }
}

fn holds_ours(hub: &HubCaches, namespace: &ObjectMeta) -> bool {
    let name = namespace.name.as_deref().unwrap_or_default();
    !hub.deployments.metadata(name).is_empty() || hub.policies.metadata(name).iter().any(is_managed)
}

/// Returns whether the namespace has one of the two identity labels.
fn has_identity_label(namespace: &ObjectMeta) -> bool {
    identity_labels(namespace).iter().any(Option::is_some)
}

fn identity_labels(namespace: &ObjectMeta) -> IdentityLabels {
    let value = |key| namespace.labels.as_ref()?.get(key).cloned();
    [
        value(labels::UPSTREAM_CLUSTER_NAME),
        value(labels::UPSTREAM_NAMESPACE),
    ]
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;

    /// I-6: a hub namespace without an identity is reported and counted.
    #[test]
    fn a_namespace_is_reported_once_per_value_of_its_labels() {
        let mut registry = Registry::default();
        let namespaces = UnidentifiedNamespaces::new(&Metrics::register(&mut registry));
        let report = |uid: &str, labels: serde_json::Value| {
            let metadata =
                object::<ObjectMeta>(json!({"name": "ns-1", "uid": uid, "labels": labels}));
            namespaces.report(&metadata, &Upstream::of(&metadata).unwrap_err())
        };
        let count = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix("unidentified_namespaces "));
            value.unwrap().to_owned()
        };
        let broken = json!({labels::UPSTREAM_CLUSTER_NAME: "cluster-", labels::UPSTREAM_NAMESPACE: "default"});
        assert!(report("1", json!({})));
        assert!(!report(
            "1",
            json!({"example.com/note": "other labels do not matter"})
        ));
        assert!(report("1", broken.clone()));
        assert!(!report("1", broken.clone()));
        assert!(report("2", broken));
        assert_eq!(count(), "2");
        let healed = object::<ObjectMeta>(json!({"uid": "1"}));
        namespaces.settle(&healed);
        namespaces.settle(&healed);
        assert_eq!(count(), "1");
        assert!(report("1", json!({})), "it is so again");
    }
}
