//! The amounts that an Instance takes from the quota of its project.

use std::collections::BTreeMap;

use api::quantity::NANOS;
use api::quota::{INSTANCES, MEMORY, ResourceRequest, VCPUS};
use api::runtime::InstanceRuntimeSpec;
use api::{InstanceSpec, Quantity, instance_type};

/// Billionths in a thousandth of a processor.
const NANOS_IN_MILLI: i128 = NANOS / 1000;
/// Billionths of a byte in a MiB.
const NANOS_IN_MIB: i128 = NANOS * 1024 * 1024;

/// The size of an Instance, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InstanceSize {
    cpu: i128,
    memory: i128,
}

/// Returns the requests of a claim for this Instance: one Instance, and its size if it is known. The first known size
/// counts: the sum of the container limits, the requests of the runtime, the size of the instance type.
pub(super) fn requests(spec: &InstanceSpec) -> Vec<ResourceRequest> {
    let request = |resource_type: &str, amount: i128| ResourceRequest {
        resource_type: resource_type.to_owned(),
        amount: i64::try_from(amount).unwrap_or(i64::MAX),
    };
    let mut requests = vec![request(INSTANCES, 1)];
    if let Some(size) = size(&spec.runtime) {
        // A part of a thousandth counts as a whole one, as in Kubernetes. A part of a MiB does not count.
        let milli = (size.cpu + NANOS_IN_MILLI - 1) / NANOS_IN_MILLI;
        requests.push(request(VCPUS, milli));
        requests.push(request(MEMORY, size.memory / NANOS_IN_MIB));
    }
    // The quota system refuses a claim with an amount of 0.
    requests.retain(|request| request.amount > 0);
    requests
}

/// Returns whether two lists have the same amounts. Their order does not matter.
pub(super) fn are_equal(one: &[ResourceRequest], other: &[ResourceRequest]) -> bool {
    let sorted = |requests: &[ResourceRequest]| {
        let mut requests = requests.to_vec();
        requests.sort();
        requests
    };
    sorted(one) == sorted(other)
}

/// Returns what these requests need beyond the former ones.
pub(super) fn beyond(
    former: &[ResourceRequest],
    wanted: &[ResourceRequest],
) -> Vec<ResourceRequest> {
    let held = |wanted: &ResourceRequest| -> i64 {
        let same = former
            .iter()
            .filter(|it| it.resource_type == wanted.resource_type);
        same.map(|it| it.amount).sum()
    };
    let more = wanted.iter().map(|request| ResourceRequest {
        amount: request.amount.saturating_sub(held(request)),
        ..request.clone()
    });
    more.filter(|request| request.amount > 0).collect()
}

fn size(runtime: &InstanceRuntimeSpec) -> Option<InstanceSize> {
    let resources = &runtime.resources;
    of_containers(runtime)
        .or_else(|| of_quantities(&resources.requests))
        .or_else(|| {
            let size = instance_type::size(&resources.instance_type)?;
            let quantities = size.map(|(name, quantity)| (name.to_owned(), quantity.into()));
            of_quantities(&quantities.into())
        })
}

/// Returns the sum of the limits of all containers, if each of them limits both resources.
fn of_containers(runtime: &InstanceRuntimeSpec) -> Option<InstanceSize> {
    let containers = &runtime.sandbox.as_ref()?.containers;
    let mut sizes = containers
        .iter()
        .map(|container| of_quantities(&container.resources.as_ref()?.limits));
    let first = sizes.next()??;
    sizes.try_fold(first, |sum, size| {
        let size = size?;
        Some(InstanceSize {
            cpu: sum.cpu.saturating_add(size.cpu),
            memory: sum.memory.saturating_add(size.memory),
        })
    })
}

/// Returns the size in these quantities. A size without one of the resources, or with a quantity that is not positive
/// or not valid, is not known.
fn of_quantities(quantities: &BTreeMap<String, Quantity>) -> Option<InstanceSize> {
    let nanos = |resource: &str| {
        let amount = quantities.get(resource)?.amount().ok()?;
        Some(amount.nanos()).filter(|nanos| *nanos > 0)
    };
    Some(InstanceSize {
        cpu: nanos(instance_type::CPU)?,
        memory: nanos(instance_type::MEMORY)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;

    fn amounts(runtime: Value) -> Vec<(String, i64)> {
        let mut instance = json!(crate::fixtures::instance("ns-1", "web-0"));
        instance["spec"]["runtime"] = runtime;
        let instance: api::Instance = object(instance);
        let requests = requests(&instance.spec);
        requests
            .into_iter()
            .map(|request| (request.resource_type, request.amount))
            .collect()
    }

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"name": "app", "image": "i", "resources": {"limits": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn the_first_known_size_counts() {
        let small = "datumcloud/d1-standard-2";
        let requests = json!({"cpu": "2", "memory": "4Gi"});
        let incomplete = json!({"name": "b", "image": "i", "resources": {"limits": {"cpu": "1"}}});
        for (what, runtime, expected) in [
            (
                "the limits of all containers",
                json!({
                    "resources": {"instanceType": small, "requests": requests},
                    "sandbox": {"containers": [container("500m", "1Gi"), container("1", "512Mi")]},
                }),
                Some((1500, 1536)),
            ),
            (
                "the requests, because a container has no limit of memory",
                json!({
                    "resources": {"instanceType": small, "requests": requests},
                    "sandbox": {"containers": [container("500m", "1Gi"), incomplete]},
                }),
                Some((2000, 4096)),
            ),
            (
                "the requests of a virtual machine",
                json!({"resources": {"instanceType": small, "requests": requests}}),
                Some((2000, 4096)),
            ),
            (
                "the instance type, because the requests lack memory",
                json!({"resources": {"instanceType": small, "requests": {"cpu": "2"}}}),
                Some((1000, 2048)),
            ),
            (
                "nothing but the number",
                json!({"resources": {"instanceType": "unknown"}}),
                None,
            ),
            (
                "nothing but the number, because a quantity is not valid",
                json!({"resources": {"instanceType": "unknown", "requests": {"cpu": "many", "memory": "1Gi"}}}),
                None,
            ),
            (
                "a part of a thousandth, and a part of a MiB",
                json!({"resources": {"instanceType": small, "requests": {"cpu": "1500500u", "memory": "1.9Mi"}}}),
                Some((1501, 1)),
            ),
        ] {
            let mut all = vec![(INSTANCES.to_owned(), 1)];
            if let Some((cpu, memory)) = expected {
                all.extend([(VCPUS.to_owned(), cpu), (MEMORY.to_owned(), memory)]);
            }
            assert_eq!(amounts(runtime), all, "{what}");
        }
    }

    #[test]
    fn an_amount_of_zero_is_not_requested() {
        let runtime =
            json!({"resources": {"instanceType": "x", "requests": {"cpu": "1", "memory": "1Ki"}}});
        let expected = [(INSTANCES.to_owned(), 1), (VCPUS.to_owned(), 1000)];
        assert_eq!(amounts(runtime), expected);
    }

    #[test]
    fn the_order_of_requests_does_not_matter() {
        let request = |resource_type: &str, amount| ResourceRequest {
            resource_type: resource_type.to_owned(),
            amount,
        };
        let (a, b) = (request("a", 1), request("b", 2));
        assert!(are_equal(&[a.clone(), b.clone()], &[b.clone(), a.clone()]));
        assert!(!are_equal(&[a.clone(), b], &[a.clone(), request("b", 3)]));
        assert!(!are_equal(std::slice::from_ref(&a), &[]));
    }

    #[test]
    fn only_what_is_needed_beyond_the_former_requests_counts() {
        let request = |resource_type: &str, amount: i64| ResourceRequest {
            resource_type: resource_type.to_owned(),
            amount,
        };
        let sized = |vcpus, memory| {
            vec![
                request(INSTANCES, 1),
                request(VCPUS, vcpus),
                request(MEMORY, memory),
            ]
        };
        let without_size = vec![request(INSTANCES, 1)];
        for (former, wanted, expected) in [
            (sized(1000, 2048), sized(1000, 2048), vec![]),
            (sized(1000, 2048), sized(500, 1024), vec![]),
            (sized(1000, 2048), without_size.clone(), vec![]),
            (
                sized(1000, 2048),
                sized(1500, 1024),
                vec![request(VCPUS, 500)],
            ),
            (
                sized(1000, 2048),
                sized(1000, 4096),
                vec![request(MEMORY, 2048)],
            ),
            (
                without_size,
                sized(1000, 2048),
                vec![request(VCPUS, 1000), request(MEMORY, 2048)],
            ),
            (vec![], sized(1000, 2048), sized(1000, 2048)),
        ] {
            assert_eq!(beyond(&former, &wanted), expected, "{former:?}, {wanted:?}");
        }
    }
}
