//! The strategy `InterfaceClaims`: a NetworkInterfaceClaim for each interface of an Instance.
//!
//! The claim belongs to the Instance, so it ends with it. The gate opens when each claim is Bound, Allocated and
//! Prepared. Programmed follows only after the Instance is attached, so nothing waits for it.

mod holder;
mod status;

use std::collections::HashMap;
use std::sync::Arc;

use api::condition::{self, Condition};
use api::instance::LocationReference;
use api::network_interface::{InstanceNetworkInterface, LocalReference};
use api::networking::{
    ALLOCATED, BOUND, NetworkInterface, NetworkInterfaceClaim, NetworkInterfaceClaimSpec, PREPARED,
};
use api::reasons::network_ready as reason;
use api::{Instance, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::plan::{Networks, ObjectStep, Verdict};
use crate::names;
use crate::objects::{
    controller_name, controller_uid, is_terminating, owner_reference, undecodable_of_name,
};

/// The labels of an Instance that its claims have too.
const LABELS: [&str; 4] = [
    labels::WORKLOAD_NAME,
    labels::PLACEMENT_NAME,
    labels::INSTANCE_CITY_CODE,
    labels::INSTANCE_INDEX,
];
/// The conditions that open the gate, in the order in which they become True.
const NEEDED: [&str; 3] = [BOUND, ALLOCATED, PREPARED];

/// A snapshot of an Instance, and of the objects of the network operator in its namespace.
pub(super) struct Observed<'a> {
    pub(super) instance: &'a Instance,
    /// The location of the cell for the city of the Instance, or the verdict without one.
    pub(super) location: Result<LocationReference, Verdict>,
    pub(super) claims: &'a [Arc<NetworkInterfaceClaim>],
    /// The claims that cannot be decoded.
    pub(super) undecodable: &'a [Arc<InvalidObject>],
    pub(super) interfaces: &'a [Arc<NetworkInterface>],
    pub(super) now: Timestamp,
}

/// The claim of an interface.
enum Claim<'a> {
    Found(&'a Arc<NetworkInterfaceClaim>),
    /// There is none, and it can be created with this name.
    Free(String),
    /// The name becomes free later.
    Taken(String),
    /// It may be this one, which cannot be decoded.
    Unreadable(&'a Arc<InvalidObject>),
}

/// Returns what the networks of an Instance need.
pub(super) fn networks(observed: &Observed<'_>) -> Networks {
    let instance = observed.instance;
    let interfaces = instance.spec.network_interfaces.iter().enumerate();
    let interfaces: Vec<_> = interfaces
        .map(|(index, interface)| (name(index, interface), interface))
        .collect();
    let claims: Vec<_> = interfaces
        .iter()
        .map(|(name, _)| claim(observed, name))
        .collect();
    let found = || {
        claims.iter().filter_map(|claim| match claim {
            Claim::Found(claim) => Some(*claim),
            Claim::Free(_) | Claim::Taken(_) | Claim::Unreadable(_) => None,
        })
    };
    let holder = holder::report(instance, found(), observed.interfaces, observed.now);
    if is_terminating(instance) {
        return Networks {
            holder,
            ..Networks::default()
        };
    }
    let location = match &observed.location {
        Ok(location) => location.clone(),
        Err(verdict) => {
            return Networks {
                verdict: verdict.clone(),
                holder,
                ..Networks::default()
            };
        }
    };
    if let Some(message) = equal_names(interfaces.iter().map(|(name, _)| name.as_str())) {
        return Networks {
            verdict: Verdict::Blocked {
                reason: reason::FAILED_TO_CREATE,
                message,
            },
            location: Some(location),
            holder,
            ..Networks::default()
        };
    }
    let missing = interfaces.iter().zip(&claims);
    let missing = missing.filter_map(|((name, interface), claim)| match claim {
        Claim::Free(free) => Some(new_claim(instance, free, name, interface)),
        Claim::Found(_) | Claim::Taken(_) | Claim::Unreadable(_) => None,
    });
    let mut steps = missing.map(Box::new).map(ObjectStep::CreateInterfaceClaim);
    Networks {
        step: steps.next(),
        verdict: verdict(interfaces.iter().map(|(name, _)| name.as_str()), &claims),
        location: Some(location),
        release: None,
        interfaces: Some(found().map(|claim| status::of_claim(claim)).collect()),
        holder,
    }
}

/// Returns the name of an interface within its Instance.
fn name(index: usize, interface: &InstanceNetworkInterface) -> String {
    match interface.name.as_str() {
        "" => format!("eth{index}"),
        name => name.to_owned(),
    }
}

/// Returns the problem of two interfaces with one name. They must not share a claim.
fn equal_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        if let Some(first) = seen.insert(name, index) {
            return Some(format!(
                "networkInterfaces[{first}] and networkInterfaces[{index}] are both called {name}: give each interface \
                 of the template a name of its own"
            ));
        }
    }
    None
}

/// Finds the claim of an interface by its owner. Only the claim of this Instance counts, whatever its name is.
fn claim<'a>(observed: &Observed<'a>, interface: &str) -> Claim<'a> {
    let instance = observed.instance;
    let mut own = observed.claims.iter().filter(|claim| {
        controller_uid(claim.as_ref()) == instance.metadata.uid.as_deref()
            && claim.spec.interface_name == interface
    });
    if let Some(own) = own.next() {
        return Claim::Found(own);
    }
    let of_name = |name: &str| {
        let mut claims = observed.claims.iter();
        claims.find(|claim| claim.metadata.name.as_deref() == Some(name))
    };
    let instance_name = instance.name_any();
    let readable = format!("{instance_name}-{interface}");
    let parts = [&instance_name, interface];
    // One name is free, because there is one more name than there are claims.
    let count = observed.claims.len() + observed.undecodable.len() + 1;
    let names = || names::derived_object_names(&readable, &parts).take(count);
    let invalid = names().find_map(|it| undecodable_of_name(observed.undecodable, &it));
    if let Some(invalid) = invalid {
        return Claim::Unreadable(invalid);
    }
    for name in names() {
        let Some(other) = of_name(&name) else {
            return Claim::Free(name);
        };
        // A claim of a former Instance ends with it.
        let owner = controller_name::<Instance>(&other.metadata);
        let is_own = controller_uid(other.as_ref()) == instance.metadata.uid.as_deref();
        let ends = !is_own || is_terminating(other.as_ref());
        if owner == Some(instance_name.as_str()) && ends {
            return Claim::Taken(name);
        }
    }
    Claim::Taken(readable)
}

/// Returns a new claim. Its spec is immutable. What the Instance does not say is left to the network operator.
fn new_claim(
    instance: &Instance,
    name: &str,
    interface_name: &str,
    interface: &InstanceNetworkInterface,
) -> NetworkInterfaceClaim {
    let own = instance.labels();
    let labels = LABELS.iter().filter_map(|key| {
        let value = own.get(*key).filter(|value| !value.is_empty())?;
        Some(((*key).to_owned(), value.clone()))
    });
    NetworkInterfaceClaim {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: instance.namespace(),
            labels: Some(labels.collect()),
            owner_references: Some(vec![owner_reference(instance, true)]),
            ..ObjectMeta::default()
        },
        spec: NetworkInterfaceClaimSpec {
            // The Network is in the namespace of the Instance, whatever the reference says.
            network: LocalReference {
                name: interface.network.name.clone(),
            },
            interface_name: interface_name.to_owned(),
            ip_families: interface.ip_families.clone(),
            addresses: interface.addresses.clone(),
            reclaim_policy: interface.reclaim_policy.clone(),
        },
        status: None,
    }
}

/// Returns whether all claims open the gate.
fn verdict<'n>(interfaces: impl Iterator<Item = &'n str>, claims: &[Claim<'_>]) -> Verdict {
    let mut waits_for = None;
    for (interface, claim) in interfaces.zip(claims) {
        let claim = match claim {
            Claim::Found(claim) => claim,
            Claim::Free(_) => {
                waits_for.get_or_insert_with(|| prepared(interface));
                continue;
            }
            Claim::Taken(name) => {
                let message =
                    format!("NetworkInterfaceClaim {name} of another Instance must end first");
                waits_for.get_or_insert(message);
                continue;
            }
            Claim::Unreadable(invalid) => {
                return Verdict::unreadable::<NetworkInterfaceClaim>(invalid);
            }
        };
        if is_terminating(claim.as_ref()) {
            waits_for.get_or_insert_with(|| {
                format!(
                    "NetworkInterfaceClaim {} is being deleted",
                    claim.name_any()
                )
            });
            continue;
        }
        let status = claim.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let conditions = NEEDED.map(|type_| condition::find(conditions, type_));
        if let Some(refused) = conditions.iter().flatten().find(|it| it.is_false()) {
            let Condition {
                reason, message, ..
            } = refused;
            return Verdict::Blocked {
                reason: reason::FAILED_TO_CREATE,
                message: format!("interface {interface}: {reason}: {message}"),
            };
        }
        if !conditions
            .iter()
            .all(|it| it.is_some_and(Condition::is_true))
        {
            waits_for.get_or_insert_with(|| prepared(interface));
        }
    }
    waits_for.map_or(Verdict::Ready, Verdict::Waiting)
}

fn prepared(interface: &str) -> String {
    format!("the network operator has not prepared interface {interface} yet")
}

#[cfg(test)]
mod tests;
