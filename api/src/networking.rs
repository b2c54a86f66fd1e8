//! The parts of `networking.datumapis.com/v1alpha` that this project uses. Unknown fields are tolerated. See
//! docs/concepts/milo.md#locations-and-networks.

mod bindings;
mod interface_claims;
mod object_status;

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
pub use bindings::{
    ContextReference, Location, LocationSpec, NETWORK_FAILED_TO_CREATE, NetworkBinding,
    NetworkBindingSpec, NetworkBindingStatus, NetworkContext, NetworkContextSpec, Subnet,
    SubnetClaim, SubnetClaimSpec, SubnetClaimStatus, SubnetSpec,
};
pub use interface_claims::{
    ALLOCATED, BOUND, HOLDER_AVAILABLE, NetworkInterface, NetworkInterfaceClaim,
    NetworkInterfaceClaimSpec, NetworkInterfaceClaimStatus, NetworkInterfaceSpec, PREPARED,
    PROGRAMMED, ServingLocation, ServingLocationSpec,
};
pub use object_status::NetworkObjectStatus;

/// Condition: the network operator has finished an object of a network.
pub const READY: &str = "Ready";

/// Type of a condition of a LocationBinding. While the condition is False, the binding offers no city.
pub const AVAILABLE: &str = "Available";
/// Key in the topology of a LocationBinding. The value is the city code of the location. The key is the same as the
/// label key [`crate::labels::CITY_CODE`].
pub const CITY_CODE: &str = crate::labels::CITY_CODE;

/// A location that a project may use. Cluster-scoped, on the plane of the project.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "LocationBinding",
    plural = "locationbindings",
    schema = "disabled",
    derive = "PartialEq",
    status = "LocationBindingStatus"
)]
pub struct LocationBindingSpec {
    /// The location.
    #[serde(default)]
    pub location_ref: BoundLocation,
    /// Topology, copied from the Location. It has the key [`CITY_CODE`] and other keys.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

/// Names the Location of a binding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct BoundLocation {
    /// Name of the Location.
    #[serde(default)]
    pub name: String,
}

/// Observed state of a LocationBinding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LocationBindingStatus {
    /// Conditions of the binding.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A network that instances are attached to. Controllers only check whether a Network of this namespace and name
/// exists.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "Network",
    plural = "networks",
    namespaced,
    schema = "disabled",
    no_spec,
    derive = "PartialEq"
)]
pub struct NetworkSpec {}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_as_it_is_served_can_be_read() {
        assert_eq!(
            LocationBinding::url_path(&(), None),
            "/apis/networking.datumapis.com/v1alpha/locationbindings"
        );
        let binding: LocationBinding = serde_json::from_value(json!({
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "LocationBinding",
            "metadata": {"name": "dfw1"},
            "spec": {
                "locationRef": {"name": "dfw1"},
                "locationClassName": "datum-managed",
                "topology": {"topology.datum.net/city-code": "DFW", "topology.datum.net/region": "us"},
            },
        }))
        .unwrap();
        assert_eq!(binding.spec.location_ref.name, "dfw1");
        assert_eq!(binding.spec.topology[CITY_CODE], "DFW");
        assert_eq!(binding.status, None);
    }

    #[test]
    fn a_network_needs_nothing_but_its_metadata() {
        assert_eq!(
            Network::url_path(&(), Some("default")),
            "/apis/networking.datumapis.com/v1alpha/namespaces/default/networks"
        );
        let network: Network = serde_json::from_value(json!({
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "Network",
            "metadata": {"name": "default", "namespace": "default", "uid": "n1"},
            "spec": {"ipam": {"mode": "Auto"}, "ipFamilies": ["IPv6"], "mtu": 1460},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Pending",
                "message": "Waiting for controller", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        assert_eq!(network.metadata.uid.as_deref(), Some("n1"));
    }
}
