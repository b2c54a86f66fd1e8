//! The kinds with which former cells ask for networks: version 0.21 of the network operator, and earlier.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::object_status::NetworkObjectStatus;
use crate::condition::Condition;
use crate::instance::LocationReference;
use crate::network_interface::{LocalReference, NetworkReference};

/// Reason of Ready of a NetworkBinding: the infrastructure provider cannot create the network.
pub const NETWORK_FAILED_TO_CREATE: &str = crate::reasons::network_ready::FAILED_TO_CREATE;

/// Asks for a network in a location. Namespaced, in a cell. A network operator looks only at bindings without a
/// `networkContextRef`, so a change of the spec has no effect.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "NetworkBinding",
    plural = "networkbindings",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "NetworkBindingStatus"
)]
pub struct NetworkBindingSpec {
    /// The Network.
    pub network: NetworkReference,
    /// The Location.
    pub location: LocationReference,
}

/// Observed state of a NetworkBinding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkBindingStatus {
    /// The network in the location. It is set together with Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_context_ref: Option<ContextReference>,
    /// The condition Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Refers to a NetworkContext.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ContextReference {
    /// Namespace of the NetworkContext.
    #[serde(default)]
    pub namespace: String,
    /// Name of the NetworkContext.
    pub name: String,
}

/// A network in a location. The network operator creates it in the namespace of the Network. Ready means that the
/// infrastructure provider has programmed it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "NetworkContext",
    plural = "networkcontexts",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "NetworkObjectStatus"
)]
pub struct NetworkContextSpec {
    /// The Location.
    #[serde(default)]
    pub location: LocationReference,
}

/// Asks for a Subnet of a NetworkContext. Namespaced, in a cell.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "SubnetClaim",
    plural = "subnetclaims",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "SubnetClaimStatus"
)]
pub struct SubnetClaimSpec {
    /// Class of the Subnet.
    pub subnet_class: String,
    /// The NetworkContext, in the namespace of the claim.
    pub network_context: LocalReference,
    /// The Location of the NetworkContext.
    pub location: LocationReference,
    /// Family of the addresses.
    pub ip_family: String,
}

/// Observed state of a SubnetClaim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetClaimStatus {
    /// The Subnet of the claim. It is set together with Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_ref: Option<LocalReference>,
    /// The condition Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A range of addresses. Namespaced, in a cell.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "Subnet",
    plural = "subnets",
    namespaced,
    schema = "disabled",
    no_spec,
    derive = "PartialEq",
    status = "NetworkObjectStatus"
)]
pub struct SubnetSpec {}

/// A place where Instances can run. Namespaced in the versions of the network operator that have NetworkBindings of
/// cells.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "networking.datumapis.com",
    version = "v1alpha",
    kind = "Location",
    plural = "locations",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct LocationSpec {
    /// Topology of the location. It has the key `topology.datum.net/city-code` and other keys.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json, to_value};

    use super::*;

    fn assert_kept<K: Resource<DynamicType = ()> + DeserializeOwned + Serialize>(
        spec: &Value,
        status: &Value,
    ) {
        let kind = K::kind(&());
        let object: K = serde_json::from_value(json!({
            "apiVersion": K::api_version(&()), "kind": kind,
            "metadata": {"name": "a", "namespace": "n"}, "spec": spec, "status": status,
        }))
        .unwrap();
        let kept = to_value(object).unwrap();
        assert_eq!((&kept["spec"], &kept["status"]), (spec, status), "{kind}");
    }

    #[test]
    fn objects_as_they_are_served_can_be_read_and_keep_their_field_names() {
        let location = json!({"name": "dfw", "namespace": "default"});
        let conditions = json!([{
            "type": "Ready", "status": "True", "reason": "Because", "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]);
        assert_kept::<NetworkBinding>(
            &json!({"network": {"name": "default", "namespace": "ns-1"}, "location": location}),
            &json!({"networkContextRef": {"namespace": "ns-1", "name": "c"}, "conditions": conditions}),
        );
        assert_kept::<NetworkContext>(
            &json!({"location": location}),
            &json!({"conditions": conditions}),
        );
        assert_kept::<SubnetClaim>(
            &json!({
                "subnetClass": "private", "networkContext": {"name": "c"}, "location": location,
                "ipFamily": "IPv4",
            }),
            &json!({"subnetRef": {"name": "c-0"}, "conditions": conditions}),
        );
        assert_eq!(
            Location::url_path(&(), None),
            "/apis/networking.datumapis.com/v1alpha/locations"
        );
    }
}
