//! Runtime of an Instance: a sandbox of containers or a virtual machine. See docs/concepts/api.md.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowed;
use crate::core_v1::{EnvFromSource, EnvVar, LocalReference};
use crate::quantity::Quantity;
use crate::unknown_fields::UnknownFields;

/// Runtime of an instance, with its resources. Exactly one of `sandbox` and `virtualMachine` is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRuntimeSpec {
    /// Resources of the instance.
    pub resources: InstanceRuntimeResources,
    /// A sandbox: a managed, isolated environment that runs containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxRuntime>,
    /// A virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<VirtualMachineRuntime>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Resources of the instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRuntimeResources {
    /// Name of the instance type, for example datumcloud/d1-standard-2.
    pub instance_type: String,
    /// Resources that replace the size of the instance type if they contain cpu and memory. Admission rejects them in a
    /// Workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Containers that share one isolated environment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRuntime {
    /// Containers of the sandbox.
    #[schemars(
        length(min = 1),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub containers: Vec<SandboxContainer>,
    /// Secrets of the same namespace for pulling the images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalReference>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// One container of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxContainer {
    /// Environment variables of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// ConfigMaps and Secrets whose keys are environment variables of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub env_from: Vec<EnvFromSource>,
    /// Image of the container.
    pub image: String,
    /// Name of the container.
    pub name: String,
    /// Ports of the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<NamedPort>,
    /// Resources of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ContainerResourceRequirements>,
    /// Volumes to attach to the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceRequirements {
    /// The maximum amount of resources allowed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
    /// The minimum amount of resources required.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Attaches a volume of the instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttachment {
    /// Path to mount the volume at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    /// Name of the volume.
    pub name: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A named port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedPort {
    /// Name of the port, an IANA service name.
    pub name: String,
    /// Port number.
    #[schemars(range(min = *allowed::PORTS.start(), max = *allowed::PORTS.end()))]
    pub port: i32,
    /// Protocol of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A virtual machine. It boots from the first volume in `volumeAttachments`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineRuntime {
    /// Ports of the virtual machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Vec<NamedPort>,
    /// Volumes to attach. The first is the boot disk.
    #[schemars(length(min = 1))]
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}
