//! The nodes that a Pod needs, as Karmada decodes and prints them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Karmada's `NodeClaim`.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeClaim {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hard_node_affinity: Option<NodeSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tolerations: Vec<Toleration>,
}

impl NodeClaim {
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            hard_node_affinity,
            node_selector,
            tolerations,
        } = self;
        hard_node_affinity.is_none() && node_selector.is_none() && tolerations.is_empty()
    }
}

/// `NodeSelector` of Kubernetes.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<NodeSelectorRequirement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default)]
struct NodeSelectorRequirement {
    key: String,
    operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

/// `Toleration` of Kubernetes.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Toleration {
    #[serde(skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    operator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    effect: String,
    #[serde(rename = "tolerationSeconds", skip_serializing_if = "Option::is_none")]
    seconds: Option<i64>,
}
