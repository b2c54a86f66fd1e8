//! Instance: one virtual machine or sandbox. The cell has the original. The hub has a copy of it. The project has a
//! read-only projection of the copy. See docs/concepts/api.md.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::network_interface::{
    ExternalInterfaceAddress, InstanceNetworkInterface, InterfaceAddress, LocalReference,
};
use crate::runtime::InstanceRuntimeSpec;
use crate::unknown_fields::UnknownFields;
use crate::volume::InstanceVolume;

/// Condition: the instance is running and ready to use.
pub const READY: &str = "Ready";
/// Condition, written by the infrastructure provider: the instance has been programmed.
pub const PROGRAMMED: &str = "Programmed";
/// Condition, written by the infrastructure provider: the instance is running.
pub const RUNNING: &str = "Running";
/// Condition, written by a later infrastructure provider instead of [`RUNNING`]: the instance can be used.
pub const AVAILABLE: &str = "Available";
/// Condition: the quota of the project covers the instance.
pub const QUOTA_GRANTED: &str = "QuotaGranted";
/// Condition that exists only while it is False: the cell's Instance is not copied to the hub.
pub const COPIED_TO_HUB: &str = "CopiedToHub";
/// Condition: the networks of the instance are there.
pub const NETWORK_READY: &str = "NetworkReady";
/// Condition: the ConfigMaps and Secrets of the template are known, on a WorkloadDeployment of a project; or are in the
/// cell, on an instance. The value of a WorkloadDeployment on the hub is ignored.
pub const REFERENCED_DATA_READY: &str = "ReferencedDataReady";
/// Scheduling gate that `data-gate` removes once the ConfigMaps and Secrets of the instance are in the cell.
pub const REFERENCED_DATA_GATE: &str = "ReferencedData";
/// Scheduling gate that `network` removes once the networks of the instance are there.
pub const NETWORK_GATE: &str = "Network";
/// Scheduling gate that `quota` removes once the quota of the project covers the instance.
pub const QUOTA_GATE: &str = "Quota";

/// Desired state of an Instance.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "Instance",
    plural = "instances",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    doc = "Instance is the Schema for the instances API",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Network IP",
        type_ = "string",
        json_path = ".status.networkInterfaces[0].assignments.networkIP"
    ),
    printcolumn(
        name = "External IP",
        type_ = "string",
        json_path = ".status.networkInterfaces[0].assignments.externalIP"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
pub struct InstanceSpec {
    /// Template hash and scheduling gates. The deployment controller of the cell writes the hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<InstanceControllerSpec>,
    /// Location that the instance has been scheduled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationReference>,
    /// Network interfaces of the instance.
    #[schemars(length(min = 1))]
    pub network_interfaces: Vec<InstanceNetworkInterface>,
    /// Runtime of the instance, with its resources.
    pub runtime: InstanceRuntimeSpec,
    /// Volumes that the containers or the virtual machine can attach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<InstanceVolume>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// The part of the spec that belongs to the cell. The deployment controller of the cell writes `template_hash`. Other
/// controllers remove the gates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceControllerSpec {
    /// Gates that must be removed before the provider creates the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Hash of the template that the Instance was created from. Opaque.
    pub template_hash: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A gate of an Instance. While the gate is present, the provider must not create the instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingGate {
    /// Name of the gate.
    pub name: String,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Refers to a Location.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "namespace"]))]
pub struct LocationReference {
    /// Name of the Location.
    pub name: String,
    /// Namespace of the Location. The CRD requires it. The program also reads references without a namespace, which
    /// refer to a cluster-scoped Location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Observed state of an Instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {
    "conditions": [
        {"lastTransitionTime": "1970-01-01T00:00:00Z", "message": "Waiting for controller", "reason": "Pending", "status": "Unknown", "type": "Programmed"},
        {"lastTransitionTime": "1970-01-01T00:00:00Z", "message": "Waiting for controller", "reason": "Pending", "status": "Unknown", "type": "Running"},
        {"lastTransitionTime": "1970-01-01T00:00:00Z", "message": "Waiting for controller", "reason": "Pending", "status": "Unknown", "type": "Ready"},
    ]
}))]
pub struct InstanceStatus {
    /// Known conditions: Ready, Programmed, Running, `NetworkReady` and `QuotaGranted`. `CopiedToHub` exists only while
    /// it is False.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Template hash that the infrastructure provider reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<InstanceControllerStatus>,
    /// Status of each network interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<InstanceNetworkInterfaceStatus>,
    /// Whether the provider must stop the instance. It keeps the place, the disks and the quota of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

impl Instance {
    /// Returns whether the infrastructure provider must not run the instance.
    pub fn is_suspended(&self) -> bool {
        let status = self.status.as_ref();
        status.and_then(|status| status.suspended) == Some(true)
    }
}

/// Written by the infrastructure provider that creates the instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceControllerStatus {
    /// Hash of the template that the running instance was created from.
    pub observed_template_hash: String,
}

/// Status of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceNetworkInterfaceStatus {
    /// Addresses of the interface within its network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<InterfaceAddress>,
    /// The main addresses of the interface.
    pub assignments: InstanceNetworkInterfaceAssignments,
    /// Conditions of the interface: Allocated, Prepared and Programmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Addresses of the interface outside of its network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_addresses: Vec<ExternalInterfaceAddress>,
    /// Name of the interface.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The NetworkInterface in the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interface_ref: Option<LocalReference>,
}

/// Addresses of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct InstanceNetworkInterfaceAssignments {
    /// External IP address of the interface.
    #[serde(
        rename = "externalIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub external_ip: Option<String>,
    /// IP address of the interface within its network.
    #[serde(rename = "networkIP", default, skip_serializing_if = "Option::is_none")]
    pub network_ip: Option<String>,
}
