//! `cluster.karmada.io/v1alpha1`. See docs/concepts/karmada-behaviour.md.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Condition of a Cluster: its API server answers. With Karmada's default thresholds, it becomes False about 35 s after
/// the last answer if connections are refused, and about 80 s after it if they hang (docs/concepts/freshness.md).
pub const READY: &str = "Ready";

/// A cell. Cluster-scoped; its name is the name of the cell.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    schema = "disabled",
    no_spec,
    derive = "PartialEq",
    status = "ClusterStatus"
)]
pub struct ClusterSpec {}

/// Observed state of a cell.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ClusterStatus {
    /// Conditions of the cell.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::json;

    use super::*;
    use crate::condition;

    #[test]
    fn a_cell_that_is_cut_off_can_be_read() {
        assert_eq!(
            Cluster::url_path(&(), None),
            "/apis/cluster.karmada.io/v1alpha1/clusters"
        );
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "dfw1", "labels": {"topology.datum.net/city-code": "DFW"}},
            "spec": {
                "syncMode": "Push", "apiEndpoint": "https://127.0.0.1:6443", "id": "c1",
                "taints": [{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule", "timeAdded": "2026-11-21T10:00:35Z"}],
            },
            "status": {
                "kubernetesVersion": "v1.35.4",
                "apiEnablements": [{"groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": "Instance", "name": "instances"}]}],
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ClusterNotReachable",
                    "message": "cluster is not reachable", "lastTransitionTime": "2026-11-21T10:00:35Z",
                }],
                "nodeSummary": {},
            },
        }))
        .unwrap();
        let conditions = cluster.status.unwrap().conditions;
        let ready = condition::find(&conditions, READY).unwrap();
        assert!(ready.is_false());
        assert_eq!(
            ready.last_transition_time.0.to_string(),
            "2026-11-21T10:00:35Z"
        );
    }

    #[test]
    fn a_cell_that_has_just_joined_has_no_status() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw1"},
            "spec": {"syncMode": "Push"},
        }))
        .unwrap();
        assert_eq!(cluster.status, None);
    }
}
