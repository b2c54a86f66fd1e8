//! The types of Kubernetes' core/v1 that the compute API embeds, with the schema of its CRDs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::unknown_fields::UnknownFields;

/// EnvVar represents an environment variable present in a Container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Name of the environment variable.
    pub name: String,
    /// Value of the variable. It may refer to variables that are defined before it, as $(VAR_NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Source for the environment variable's value. Cannot be used if value is not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// EnvVarSource represents a source for the value of an EnvVar.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVarSource {
    /// Selects a key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
    /// Selects a field of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<ObjectFieldSelector>,
    /// Selects a resource of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_field_ref: Option<ResourceFieldSelector>,
    /// Selects a key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Selects one key of a ConfigMap or of a Secret in the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct KeySelector {
    /// The key to select.
    pub key: String,
    /// Name of the referent.
    #[serde(default)]
    pub name: String,
    /// Whether the referent or its key may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// All keys of a ConfigMap or of a Secret as environment variables. Exactly one of the sources is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvFromSource {
    /// The ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<OptionalReference>,
    /// Text to put before each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<OptionalReference>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Refers to a ConfigMap or to a Secret of the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct OptionalReference {
    /// Name of the referent.
    #[serde(default)]
    pub name: String,
    /// Whether the referent may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Selects a field of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectFieldSelector {
    /// Version of the schema that the fieldPath is written in terms of, defaults to "v1".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Path of the field to select in the specified API version.
    pub field_path: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Selects a resource of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ResourceFieldSelector {
    /// Container name: required for volumes, optional for env vars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Specifies the output format of the exposed resources, defaults to "1".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divisor: Option<Quantity>,
    /// Resource to select.
    pub resource: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Adapts a ConfigMap into a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigMapVolumeSource {
    /// Mode bits used to set permissions on created files by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
    /// Keys to project, each into its own path. Empty means every key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<KeyToPath>,
    /// Name of the ConfigMap.
    #[serde(default)]
    pub name: String,
    /// Whether the ConfigMap or its keys may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Adapts a Secret into a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolumeSource {
    /// Mode bits used to set permissions on created files by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
    /// Keys to project, each into its own path. Empty means every key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<KeyToPath>,
    /// Whether the Secret or its keys may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Name of the Secret in the object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Maps a key to a path within a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyToPath {
    /// The key to project.
    pub key: String,
    /// Mode bits used to set permissions on this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<i32>,
    /// The relative path of the file to map the key to.
    pub path: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Refers to an object of the same namespace by its name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// Name of the referent.
    pub name: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}
