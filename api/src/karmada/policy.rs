//! `policy.karmada.io/v1alpha1`. See docs/concepts/karmada-behaviour.md.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::unknown_fields::UnknownFields;

/// Propagates objects to cells. Unknown fields directly in `spec` are ignored, because Karmada sets defaults there and
/// an operator may set fields there. Unknown fields of selectors and of the placement are kept.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "PropagationPolicy",
    plural = "propagationpolicies",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct PropagationPolicySpec {
    /// Selects the cells.
    #[serde(default)]
    pub placement: Placement,
    /// Whether the ConfigMaps and Secrets that the objects depend on are propagated with them.
    #[serde(default)]
    pub propagate_deps: bool,
    /// The objects that the policy claims.
    #[serde(default)]
    pub resource_selectors: Vec<ResourceSelector>,
}

/// Changes objects for some of their cells. Cluster-scoped.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterOverridePolicy",
    plural = "clusteroverridepolicies",
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ClusterOverridePolicySpec {
    /// The changes of each group of cells.
    #[serde(default)]
    pub override_rules: Vec<OverrideRule>,
    /// The objects that are changed.
    #[serde(default)]
    pub resource_selectors: Vec<ResourceSelector>,
}

/// Changes of some cells.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// The changes.
    #[serde(default)]
    pub overriders: Overriders,
    /// The cells.
    #[serde(default)]
    pub target_cluster: TargetCells,
}

/// Changes of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Changes of its annotations.
    #[serde(default)]
    pub annotations_overrider: Vec<AnnotationsOverrider>,
    /// Unknown fields, which change other parts.
    #[serde(flatten)]
    pub others: UnknownFields,
}

/// Adds, replaces or removes annotations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AnnotationsOverrider {
    /// `add`, `replace` or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The annotations.
    #[serde(default)]
    pub value: BTreeMap<String, String>,
}

/// Selects cells by their names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetCells {
    /// Names of the cells.
    #[serde(default)]
    pub cluster_names: Vec<String>,
    /// Unknown fields that select cells, such as labels.
    #[serde(flatten)]
    pub others: UnknownFields,
}

/// Selects objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// `apiVersion` of the kind.
    #[serde(default)]
    pub api_version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// Labels that an object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Name that the object must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the objects. It equals the namespace of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Unknown fields, which narrow the selection.
    #[serde(flatten)]
    pub others: UnknownFields,
}

/// Selects the cells that receive the objects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The cells that are eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Taints of cells that do not keep the objects away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<ClusterToleration>,
    /// Unknown fields that influence the choice of cells, such as spread constraints.
    #[serde(flatten)]
    pub others: UnknownFields,
}

/// Tolerates taints of cells. Without an effect, every effect is tolerated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterToleration {
    /// Key of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How the value of the taint is compared. `Exists` tolerates every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Unknown fields that limit the toleration, such as a time.
    #[serde(flatten)]
    pub others: UnknownFields,
}

impl ClusterToleration {
    /// Tolerates a taint with every value and every effect, for ever.
    pub fn of(key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            others: UnknownFields::default(),
        }
    }
}

/// Selects cells.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Labels that a Cluster must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Unknown fields that select cells, such as names.
    #[serde(flatten)]
    pub others: UnknownFields,
}

/// Selects by labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels and the values that they must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Unknown fields that select by labels, such as expressions.
    #[serde(flatten)]
    pub others: UnknownFields,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_type_is_kept_where_it_decides_what_goes_where() {
        let spec = json!({
            "placement": {
                "clusterAffinity": {
                    "clusterNames": ["dfw1"],
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"b": "c"}},
                },
                "clusterTolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}],
                "spreadConstraints": [{"maxGroups": 1, "minGroups": 1, "spreadByField": "cluster"}],
            },
            "propagateDeps": true,
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "later": 1, "namespace": "ns-1"}],
        });
        let mut as_served = spec.clone();
        as_served["conflictResolution"] = json!("Abort");
        let read: PropagationPolicySpec = serde_json::from_value(as_served).unwrap();
        assert_eq!(json!(read), spec);
    }
}
