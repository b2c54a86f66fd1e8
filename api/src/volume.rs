//! Volumes of an Instance. See docs/concepts/api.md.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowed;
use crate::core_v1::{ConfigMapVolumeSource, LocalReference, SecretVolumeSource};
use crate::embedded_metadata::EmbeddedMetadata;
use crate::quantity::Quantity;
use crate::unknown_fields::UnknownFields;

/// A volume. Admission requires exactly one source: `configMap`, `disk` or `secret`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceVolume {
    /// A ConfigMap that populates the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapVolumeSource>,
    /// A persistent disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskVolumeSource>,
    /// Name of the volume.
    pub name: String,
    /// A Secret that populates the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretVolumeSource>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A disk that is created with the instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskVolumeSource {
    /// Device name to use when attaching the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// Settings of a new disk.
    pub template: DiskTemplateSpec,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Settings of a new disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskTemplateSpec {
    /// Metadata of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<EmbeddedMetadata>,
    /// Desired state of the disk.
    pub spec: DiskSpec,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Desired state of a disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskSpec {
    /// Initial content of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populator: Option<DiskPopulator>,
    /// Resources of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DiskResourceRequirements>,
    /// Type of the disk.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "pd-standard"))]
    pub type_: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Resources of a disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskResourceRequirements {
    /// The minimum amount of resources required.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Initial content of a disk. At most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskPopulator {
    /// An empty file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemDiskPopulator>,
    /// An operating system image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<LocalReference>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// An empty file system.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemDiskPopulator {
    /// Type of the file system.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = allowed::FILESYSTEMS))]
    pub type_: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}
