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
    /// The scripts.
    #[serde(default)]
    pub customizations: CustomizationRules,
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

/// A script per operation of the interpreter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationRules {
    /// InterpretComponent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaScript>,
    /// InterpretDependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaScript>,
    /// InterpretHealth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaScript>,
    /// InterpretReplica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaScript>,
    /// ReviseReplica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaScript>,
    /// Retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaScript>,
    /// AggregateStatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaScript>,
    /// InterpretStatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaScript>,
}

/// The script of one operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LuaScript {
    /// The source, in Lua 5.1.
    #[serde(default)]
    pub lua_script: String,
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
