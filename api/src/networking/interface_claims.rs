//! The kinds with which a cell asks for the network interfaces of Instances.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::object_status::NetworkObjectStatus;
use crate::condition::Condition;
use crate::network_interface::{
    AddressClass, ExternalInterfaceAddress, InterfaceAddress, LocalReference,
};

/// Condition of a NetworkInterfaceClaim: a NetworkInterface belongs to the claim.
pub const BOUND: &str = "Bound";
/// Condition of a NetworkInterfaceClaim: the interface has its addresses.
pub const ALLOCATED: &str = "Allocated";
/// Condition of a NetworkInterfaceClaim: an Instance can be attached to the interface.
pub const PREPARED: &str = "Prepared";
/// Condition of a NetworkInterfaceClaim: traffic reaches the interface. It becomes True after the Instance is attached,
/// so no Instance may wait for it.
pub const PROGRAMMED: &str = "Programmed";
/// Condition of a NetworkInterface that its holder writes: traffic may be sent to the holder.
pub const HOLDER_AVAILABLE: &str = "HolderAvailable";

/// Asks for one network interface. Namespaced, in a cell. The spec is immutable.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "NetworkInterfaceClaim",
    plural = "networkinterfaceclaims",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "NetworkInterfaceClaimStatus"
)]
pub struct NetworkInterfaceClaimSpec {
    /// The Network, in the namespace of the claim.
    pub network: LocalReference,
    /// Name of the interface within its holder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interface_name: String,
    /// Families of the addresses. The network operator has a default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<String>,
    /// Classes of additional addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressClass>,
    /// Whether the addresses are kept when the claim is deleted. The network operator has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<String>,
}

/// Observed state of a NetworkInterfaceClaim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterfaceClaimStatus {
    /// The NetworkInterface of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interface_ref: Option<LocalReference>,
    /// Addresses in the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<InterfaceAddress>,
    /// Addresses outside of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_addresses: Vec<ExternalInterfaceAddress>,
    /// [`BOUND`], [`ALLOCATED`], [`PREPARED`], [`PROGRAMMED`] and Ready. All are Unknown at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A network interface. Namespaced, in a cell.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "NetworkInterface",
    plural = "networkinterfaces",
    namespaced,
    schema = "disabled",
    no_spec,
    derive = "PartialEq",
    status = "NetworkObjectStatus"
)]
pub struct NetworkInterfaceSpec {}

/// The location that a cell serves. Cluster-scoped. Its name is that of the Location.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "ServingLocation",
    plural = "servinglocations",
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ServingLocationSpec {
    /// Topology of the location. It has the key `topology.datum.net/city-code` and other keys.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_claim_as_it_is_served_can_be_read_and_keeps_its_field_names() {
        assert_eq!(
            NetworkInterfaceClaim::url_path(&(), Some("ns-1")),
            "/apis/networking.datumapis.com/v1alpha/namespaces/ns-1/networkinterfaceclaims"
        );
        assert_eq!(
            ServingLocation::url_path(&(), None),
            "/apis/networking.datumapis.com/v1alpha/servinglocations"
        );
        let spec = json!({
            "network": {"name": "default"}, "interfaceName": "eth0", "ipFamilies": ["IPv6"],
            "addresses": [{"class": "public"}], "reclaimPolicy": "Delete",
        });
        let status = json!({
            "networkInterfaceRef": {"name": "web-0-eth0"},
            "addresses": [{"family": "IPv6", "address": "fd00::1/128", "gateway": "fd00::", "primary": true}],
            "externalAddresses": [{"family": "IPv4", "address": "203.0.113.1", "class": "public"}],
            "conditions": [{
                "type": "Bound", "status": "Unknown", "reason": "Pending", "message": "Waiting for controller",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }],
        });
        let claim: NetworkInterfaceClaim = serde_json::from_value(json!({
            "apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkInterfaceClaim",
            "metadata": {"name": "web-0-eth0", "namespace": "ns-1"}, "spec": spec, "status": status,
        }))
        .unwrap();
        assert_eq!(to_value(&claim.spec).unwrap(), spec);
        assert_eq!(to_value(claim.status.unwrap()).unwrap(), status);
    }

    #[test]
    fn a_claim_without_wishes_leaves_the_defaults_to_the_network_operator() {
        let spec = NetworkInterfaceClaimSpec {
            network: LocalReference { name: "n".into() },
            ..NetworkInterfaceClaimSpec::default()
        };
        assert_eq!(to_value(spec).unwrap(), json!({"network": {"name": "n"}}));
    }
}
