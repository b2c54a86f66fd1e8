//! The status of an interface of an Instance, copied from its claim.

use api::condition::{self, Condition};
use api::instance::{InstanceNetworkInterfaceAssignments, InstanceNetworkInterfaceStatus};
use api::network_interface::InterfaceAddress;
use api::networking::{ALLOCATED, NetworkInterfaceClaim, PREPARED, PROGRAMMED};

/// The conditions that are copied, in this order.
const COPIED: [&str; 3] = [ALLOCATED, PREPARED, PROGRAMMED];

/// Returns the status of the interface of this claim.
pub(super) fn of_claim(claim: &NetworkInterfaceClaim) -> InstanceNetworkInterfaceStatus {
    let status = claim.status.clone().unwrap_or_default();
    let copied = |type_: &&str| condition::find(&status.conditions, type_).cloned();
    let conditions = COPIED.iter().filter_map(copied);
    let primary = status.addresses.iter().find(|address| address.primary);
    let network_ip = primary.or_else(|| status.addresses.first()).map(bare);
    let external = status.external_addresses.first();
    InstanceNetworkInterfaceStatus {
        name: claim.spec.interface_name.clone(),
        network_interface_ref: status.network_interface_ref,
        // The generation of the claim means nothing for the Instance.
        conditions: conditions.map(|it: Condition| it.observed(None)).collect(),
        assignments: InstanceNetworkInterfaceAssignments {
            external_ip: external.map(|it| it.address.clone()),
            network_ip,
        },
        addresses: status.addresses,
        external_addresses: status.external_addresses,
    }
}

/// Returns an address without the length of its prefix, if it is the address of a single host.
fn bare(address: &InterfaceAddress) -> String {
    let host = match address.address.rsplit_once('/') {
        Some((host, "32")) if !host.contains(':') => host,
        Some((host, "128")) => host,
        _ => &address.address,
    };
    host.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;

    fn claim(status: &Value) -> NetworkInterfaceClaim {
        object(json!({
            "metadata": {"name": "web-0-eth0", "namespace": "ns-1"},
            "spec": {"network": {"name": "default"}, "interfaceName": "eth0"},
            "status": status,
        }))
    }

    #[test]
    fn the_main_addresses_are_the_primary_and_the_first_external_one() {
        for (addresses, external, expected) in [
            (json!([]), json!([]), json!({})),
            (
                json!([{"family": "IPv4", "address": "10.0.0.7/32"}]),
                json!([]),
                json!({"networkIP": "10.0.0.7"}),
            ),
            (
                json!([
                    {"family": "IPv4", "address": "10.0.0.7/32"},
                    {"family": "IPv6", "address": "fd00::7/128", "primary": true},
                ]),
                json!([
                    {"family": "IPv4", "address": "203.0.113.7", "class": "a"},
                    {"family": "IPv6", "address": "2001:db8::7", "class": "b"},
                ]),
                json!({"networkIP": "fd00::7", "externalIP": "203.0.113.7"}),
            ),
            (
                json!([{"family": "IPv6", "address": "fd00:7::/64", "primary": true}]),
                json!([]),
                json!({"networkIP": "fd00:7::/64"}),
            ),
            (
                json!([{"family": "IPv6", "address": "fd00:7::/32", "primary": true}]),
                json!([]),
                json!({"networkIP": "fd00:7::/32"}),
            ),
        ] {
            let status = of_claim(&claim(
                &json!({"addresses": addresses, "externalAddresses": external}),
            ));
            assert_eq!(json!(status.assignments), expected);
            assert_eq!(json!(status.addresses), addresses);
            assert_eq!(json!(status.external_addresses), external);
        }
    }

    #[test]
    fn the_conditions_are_copied_in_a_fixed_order_without_their_generation() {
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": "Because", "message": "m",
                "observedGeneration": 7, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let types = ["Ready", "Programmed", "Prepared", "Bound", "Allocated"];
        let status = of_claim(&claim(&json!({
            "networkInterfaceRef": {"name": "nic-1"}, "conditions": types.map(condition),
        })));
        let copied: Vec<_> = status
            .conditions
            .iter()
            .map(|it| it.type_.as_str())
            .collect();
        assert_eq!(copied, ["Allocated", "Prepared", "Programmed"]);
        assert!(
            status
                .conditions
                .iter()
                .all(|it| it.observed_generation.is_none())
        );
        assert_eq!(status.name, "eth0");
        assert_eq!(status.network_interface_ref.unwrap().name, "nic-1");
    }
}
