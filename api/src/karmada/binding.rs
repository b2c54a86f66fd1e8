//! `work.karmada.io/v1alpha2`. See docs/concepts/karmada-behaviour.md.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::condition::Condition;

/// Condition of a binding: its object is scheduled. The condition refers to the generation in
/// `status.schedulerObservedGeneration`.
pub const SCHEDULED: &str = "Scheduled";
/// Reason of a False [`SCHEDULED`]: no cell matches the object.
pub const NO_CLUSTER_FIT: &str = "NoClusterFit";

/// The cells of a hub object, and the status that each cell reports. In the namespace of the object.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ResourceBinding",
    plural = "resourcebindings",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "ResourceBindingStatus"
)]
pub struct ResourceBindingSpec {
    /// The cells of the object. Empty before it is scheduled, and if no cell matches.
    #[serde(default)]
    pub clusters: Vec<TargetCluster>,
    /// The bound object.
    #[serde(default)]
    pub resource: ObjectReference,
}

/// Names the object of a binding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// `apiVersion` of the object.
    #[serde(default)]
    pub api_version: String,
    /// Kind of the object.
    #[serde(default)]
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object.
    #[serde(default)]
    pub namespace: String,
    /// UID of the object.
    #[serde(default)]
    pub uid: String,
}

/// A cell of a bound object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct TargetCluster {
    /// Name of the cell.
    #[serde(default)]
    pub name: String,
    /// Desired replicas in the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Observed state of a binding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Status reports of the cells. `interpreters` aggregates them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregated_status: Option<AggregatedStatus>,
    /// Conditions of the binding.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Generation of the binding that was scheduled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_generation: Option<i64>,
}

/// A list of `AggregatedStatusItem` as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct AggregatedStatus(Box<RawValue>);

impl AggregatedStatus {
    /// The list as JSON.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for AggregatedStatus {
    /// Returns whether both have the same text.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use kube::api::ObjectList;
    use kube::core::WatchEvent;
    use serde_json::{Value, json};

    use super::*;
    use crate::condition;

    const ITEMS: &str = r#"[{"applied":true,"clusterName":"dfw1","health":"Healthy","status":{"replicas":2}},{"clusterName":"dfw2"}]"#;

    fn text() -> String {
        let head = json!({
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": {"name": "web-default-dfw-workloaddeployment", "namespace": "ns-1", "generation": 3},
            "spec": {
                "clusters": [{"name": "dfw1", "replicas": 2}, {"name": "dfw2"}],
                "conflictResolution": "Abort", "propagateDeps": true, "replicas": 2, "schedulerName": "default-scheduler",
                "resource": {
                    "apiVersion": crate::API_VERSION, "kind": "WorkloadDeployment", "name": "web-default-dfw",
                    "namespace": "ns-1", "resourceVersion": "42", "uid": "u1",
                },
            },
        });
        let conditions = json!([{
            "type": "Scheduled", "status": "True", "reason": "Success", "message": "Binding has been scheduled successfully.",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }]);
        let head = head.to_string();
        let open = head.strip_suffix('}').unwrap();
        format!(
            r#"{open},"status":{{"aggregatedStatus":{ITEMS},"conditions":{conditions},"lastScheduledTime":"2026-11-21T10:00:00Z","schedulerObservedGeneration":3}}}}"#
        )
    }

    fn check(binding: &ResourceBinding) {
        let targets: Vec<_> = binding
            .spec
            .clusters
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        assert_eq!(targets, ["dfw1", "dfw2"]);
        let resource = &binding.spec.resource;
        assert_eq!(
            [
                &resource.api_version,
                &resource.kind,
                &resource.namespace,
                &resource.name,
                &resource.uid
            ],
            [
                crate::API_VERSION,
                "WorkloadDeployment",
                "ns-1",
                "web-default-dfw",
                "u1"
            ]
        );
        let status = binding.status.as_ref().unwrap();
        assert_eq!(
            status.scheduler_observed_generation,
            binding.metadata.generation
        );
        assert!(condition::is_true(&status.conditions, SCHEDULED));
    }

    #[test]
    fn a_binding_as_it_is_served_can_be_read() {
        assert_eq!(
            ResourceBinding::url_path(&(), Some("ns-1")),
            "/apis/work.karmada.io/v1alpha2/namespaces/ns-1/resourcebindings"
        );
        let text = text();
        let items = |binding: &ResourceBinding| {
            check(binding);
            let status = binding.status.as_ref().unwrap();
            status.aggregated_status.as_ref().unwrap().get().to_owned()
        };
        let alone: ResourceBinding = serde_json::from_str(&text).unwrap();
        assert_eq!(items(&alone), ITEMS);
        assert_eq!(alone, alone.clone());
        // From a list, from a watch and from a `serde_json::Value`.
        let list = format!(
            r#"{{"kind":"ResourceBindingList","apiVersion":"work.karmada.io/v1alpha2","metadata":{{"resourceVersion":"42"}},"items":[{text}]}}"#
        );
        let list: ObjectList<ResourceBinding> = serde_json::from_str(&list).unwrap();
        assert_eq!(items(&list.items[0]), ITEMS);
        let event = format!(r#"{{"type":"MODIFIED","object":{text}}}"#);
        let Ok(WatchEvent::Modified(watched)) =
            serde_json::from_str::<WatchEvent<ResourceBinding>>(&event)
        else {
            panic!("{event}");
        };
        assert_eq!(items(&watched), ITEMS);
        let tree: Value = serde_json::from_str(&text).unwrap();
        // As caches decode it: they skip objects that cannot be decoded.
        assert_eq!(items(&ResourceBinding::deserialize(&tree).unwrap()), ITEMS);
        assert_eq!(items(&serde_json::from_value(tree).unwrap()), ITEMS);
    }

    #[test]
    fn a_binding_that_fits_no_cell_can_be_read() {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2",
            "kind": "ResourceBinding",
            "metadata": {"name": "web-default-lax-workloaddeployment", "namespace": "ns-1", "generation": 1},
            "spec": {"resource": {"apiVersion": crate::API_VERSION, "kind": "WorkloadDeployment", "name": "web-default-lax"}},
            "status": {
                "conditions": [{
                    "type": "Scheduled", "status": "False", "reason": "NoClusterFit",
                    "message": "0/2 clusters are available: 2 cluster(s) did not match the placement cluster affinity constraint.",
                    "lastTransitionTime": "2026-11-21T10:00:00Z",
                }],
                "schedulerObservedGeneration": 1,
            },
        }))
        .unwrap();
        assert!(binding.spec.clusters.is_empty());
        let status = binding.status.unwrap();
        assert_eq!(status.aggregated_status, None);
        assert_eq!(
            condition::find(&status.conditions, SCHEDULED)
                .unwrap()
                .reason,
            NO_CLUSTER_FIT
        );
    }
}
