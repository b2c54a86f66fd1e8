//! Network interfaces of an Instance. See docs/concepts/api.md.

use crate::unknown_fields::UnknownFields;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceNetworkInterface {
    /// Classes of additional addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
    pub addresses: Vec<AddressClass>,
    /// Families of the addresses: IPv4, IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub ip_families: Vec<String>,
    /// Name of the interface, a DNS label. Without a name, it is eth followed by the index of the interface.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 15))]
    pub name: String,
    /// The network to attach the interface to.
    pub network: NetworkReference,
    /// Policy of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<InterfaceNetworkPolicy>,
    /// What happens to the addresses when the instance is deleted: Delete or Retain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Asks for an address of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct AddressClass {
    /// Name of the class.
    pub class: String,
}

/// Refers to an object of the same namespace, or to a cluster-scoped object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LocalReference {
    /// Name of the object.
    pub name: String,
}

/// An address of an interface within its network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct InterfaceAddress {
    /// The address in CIDR notation.
    pub address: String,
    /// Class of the address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Family of the address: IPv4 or IPv6.
    pub family: String,
    /// Address of the gateway.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Whether this is the main address of the interface.
    #[serde(default, skip_serializing_if = "is_false")]
    pub primary: bool,
}

/// An address of an interface outside of its network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ExternalInterfaceAddress {
    /// The address.
    pub address: String,
    /// Class of the address.
    pub class: String,
    /// Family of the address: IPv4 or IPv6.
    pub family: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Refers to a Network.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkReference {
    /// Name of the Network.
    pub name: String,
    /// Ignored. The Network is in the namespace of the Workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Policy of an interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceNetworkPolicy {
    /// Ingress rules of the interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<IngressRule>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// Allows traffic that matches a source in `from` and a port in `ports`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressRule {
    /// Sources that may connect. Empty means every source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub from: Vec<IngressPeer>,
    /// Ports that accept connections. Empty means every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<IngressPort>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A port on which traffic is allowed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressPort {
    /// Last port of the range that begins at `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_port: Option<i32>,
    /// Number or name of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    /// Protocol of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A source of traffic.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressPeer {
    /// A block of addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}

/// A block of addresses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpBlock {
    /// The block in CIDR notation.
    pub cidr: String,
    /// Blocks within `cidr` that are excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub except: Vec<String>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: UnknownFields,
}
