//! `config.karmada.io/v1alpha1`. See docs/concepts/interpreter.md.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Lua scripts that interpret a kind. Karmada runs them instead of calling a webhook for the same kind. Cluster-scoped.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceInterpreterCustomization",
    plural = "resourceinterpretercustomizations",
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ResourceInterpreterCustomizationSpec {
    /// The interpreted kind.
    #[serde(default)]
    pub target: CustomizationTarget,
}

/// Names a kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationTarget {
    /// `apiVersion` of the kind.
    #[serde(default)]
    pub api_version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_customization_as_it_is_served_can_be_read() {
        assert_eq!(
            ResourceInterpreterCustomization::url_path(&(), None),
            "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
        );
        let customization: ResourceInterpreterCustomization = serde_json::from_value(json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "workload-deployments"},
            "spec": {
                "target": {"apiVersion": crate::API_VERSION, "kind": "WorkloadDeployment"},
                "customizations": {"statusReflection": {"luaScript": "function ReflectStatus(o) return o.status end"}},
            },
        }))
        .unwrap();
        let target = customization.spec.target;
        assert_eq!(
            (target.api_version.as_str(), target.kind.as_str()),
            (crate::API_VERSION, "WorkloadDeployment")
        );
    }
}
