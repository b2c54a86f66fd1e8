//! The strategy `Bindings`: a NetworkBinding for each interface of a WorkloadDeployment, and a SubnetClaim for each
//! network in the location. The Instances of the deployment share them.
//!
//! A binding belongs to its WorkloadDeployment. A SubnetClaim is shared by all deployments on the network, and belongs
//! to all of them: it ends with the last one.

use std::sync::Arc;

use api::condition::{self, Condition};
use api::instance::LocationReference;
use api::network_interface::{LocalReference, NetworkReference};
use api::networking::{
    NETWORK_FAILED_TO_CREATE, NetworkBinding, NetworkBindingSpec, NetworkContext, READY, Subnet,
    SubnetClaim, SubnetClaimSpec,
};
use api::reasons::network_ready as reason;
use api::{Instance, WorkloadDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use super::plan::{Networks, ObjectStep, Verdict};
use crate::cell::location::{LocationProblem, are_equal};
use crate::names;
use crate::objects::{MANAGED_BY, controller_uid, is_terminating, owner_reference};

/// Class of the Subnets of Instances.
const CLASS: &str = "private";
/// Family of the addresses of Instances.
const FAMILY: &str = "IPv4";

/// A snapshot of a WorkloadDeployment, and of the objects of the network operator in its namespace.
pub(super) struct Observed<'a> {
    pub(super) instance: &'a Instance,
    pub(super) deployment: &'a WorkloadDeployment,
    /// The Location of the city.
    pub(super) location: Result<LocationReference, LocationProblem>,
    pub(super) bindings: &'a [Arc<NetworkBinding>],
    pub(super) contexts: &'a [Arc<NetworkContext>],
    pub(super) subnet_claims: &'a [Arc<SubnetClaim>],
    pub(super) subnets: &'a [Arc<Subnet>],
}

/// What comes before the networks are ready.
enum Need {
    Step(ObjectStep),
    Verdict(Verdict),
}

fn waiting<T>(message: String) -> Result<T, Need> {
    Err(Need::Verdict(Verdict::Waiting(message)))
}

/// Returns the Location that the bindings of a WorkloadDeployment use.
pub(super) fn used_location<'a>(
    deployment: &WorkloadDeployment,
    bindings: &'a [Arc<NetworkBinding>],
) -> Option<&'a LocationReference> {
    let mut own = own_bindings(deployment, bindings);
    own.next().map(|binding| &binding.spec.location)
}

/// Returns what the networks of an Instance need.
pub(super) fn networks(observed: &Observed<'_>) -> Networks {
    if is_terminating(observed.instance) || is_terminating(observed.deployment) {
        return Networks::default();
    }
    let location = match &observed.location {
        Ok(location) => location.clone(),
        Err(problem) => {
            return Networks {
                verdict: problem.clone().into(),
                ..Networks::default()
            };
        }
    };
    let (step, verdict) = match need(observed, &location) {
        Ok(()) => (None, Verdict::Ready),
        Err(Need::Step(step)) => (Some(step), Verdict::Unknown),
        Err(Need::Verdict(verdict)) => (None, verdict),
    };
    Networks {
        step,
        verdict,
        location: Some(location),
        ..Networks::default()
    }
}

fn own_bindings<'a>(
    deployment: &WorkloadDeployment,
    bindings: &'a [Arc<NetworkBinding>],
) -> impl Iterator<Item = &'a Arc<NetworkBinding>> {
    let uid = deployment.metadata.uid.clone();
    let own = move |binding: &&Arc<NetworkBinding>| {
        controller_uid(binding.as_ref()) == uid.as_deref() && !is_terminating(binding.as_ref())
    };
    bindings.iter().filter(own)
}

/// Returns what comes first. All bindings are made before any of them is awaited.
fn need(observed: &Observed<'_>, location: &LocationReference) -> Result<(), Need> {
    let deployment = observed.deployment;
    let interfaces = &deployment.spec.template.spec.network_interfaces;
    let wanted: Vec<_> = interfaces
        .iter()
        .enumerate()
        .map(|(index, interface)| {
            let name = format!("{}-net-{index}", deployment.name_any());
            new_binding(deployment, name, &interface.network.name, location)
        })
        .collect();
    let surplus = own_bindings(deployment, observed.bindings).find(|binding| {
        let differs = |wanted: &NetworkBinding| {
            wanted.metadata.name != binding.metadata.name || !is_same(wanted, binding)
        };
        wanted.iter().all(differs)
    });
    if let Some(surplus) = surplus {
        return Err(Need::Step(ObjectStep::DeleteBinding(Arc::clone(surplus))));
    }
    let existing = |name: Option<&str>| {
        let mut bindings = observed.bindings.iter();
        bindings.find(|binding| binding.metadata.name.as_deref() == name)
    };
    let missing = wanted
        .iter()
        .find(|it| existing(it.metadata.name.as_deref()).is_none());
    if let Some(missing) = missing {
        let binding = Box::new(missing.clone());
        return Err(Need::Step(ObjectStep::CreateBinding(binding)));
    }
    let bindings = wanted
        .iter()
        .filter_map(|it| existing(it.metadata.name.as_deref()));
    let mut contexts = bindings
        .map(|binding| context(observed, binding))
        .collect::<Result<Vec<_>, _>>()?;
    contexts.sort_by_key(|context| context.name_any());
    contexts.dedup_by_key(|context| context.name_any());
    let subnets = contexts.into_iter();
    let subnets: Vec<_> = subnets
        .map(|context| subnet(observed, context, location))
        .collect();
    // A claim that is missing is made before another one is awaited.
    let (steps, others): (Vec<_>, Vec<_>) = subnets
        .into_iter()
        .partition(|it| matches!(it, Err(Need::Step(_))));
    steps.into_iter().chain(others).collect()
}

fn new_binding(
    deployment: &WorkloadDeployment,
    name: String,
    network: &str,
    location: &LocationReference,
) -> NetworkBinding {
    NetworkBinding {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: deployment.namespace(),
            owner_references: Some(vec![owner_reference(deployment, true)]),
            ..ObjectMeta::default()
        },
        spec: NetworkBindingSpec {
            // The Network is in the namespace of the deployment, whatever the reference says.
            network: NetworkReference {
                name: network.to_owned(),
                namespace: deployment.namespace(),
                ..NetworkReference::default()
            },
            location: location.clone(),
        },
        status: None,
    }
}

/// Returns whether a binding asks for the same network in the same location.
fn is_same(wanted: &NetworkBinding, binding: &NetworkBinding) -> bool {
    let namespace = |it: &NetworkBinding| {
        let namespace = it.spec.network.namespace.clone();
        namespace.or_else(|| it.namespace())
    };
    wanted.spec.network.name == binding.spec.network.name
        && namespace(wanted) == namespace(binding)
        && are_equal(&wanted.spec.location, &binding.spec.location)
}

/// Returns the network of a binding in the location, if it is ready.
fn context<'a>(
    observed: &Observed<'a>,
    binding: &NetworkBinding,
) -> Result<&'a NetworkContext, Need> {
    let name = binding.name_any();
    let network = &binding.spec.network.name;
    if controller_uid(binding) != observed.deployment.metadata.uid.as_deref()
        || is_terminating(binding)
    {
        return waiting(format!(
            "NetworkBinding {name} of another object must end first"
        ));
    }
    let status = binding.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let ready = condition::find(conditions, READY);
    if let Some(refused) = ready.filter(|it| it.is_false()) {
        let reason = match refused.reason.as_str() {
            NETWORK_FAILED_TO_CREATE => Some(reason::FAILED_TO_CREATE),
            reason::NETWORK_NOT_FOUND => Some(reason::NETWORK_NOT_FOUND),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(Need::Verdict(Verdict::Blocked {
                reason,
                message: format!("network {network}: {}", refused.message),
            }));
        }
    }
    let reference = status.and_then(|status| status.network_context_ref.as_ref());
    let reference = reference.filter(|_| ready.is_some_and(Condition::is_true));
    let Some(reference) = reference else {
        return waiting(format!(
            "the network operator has not bound network {network} yet"
        ));
    };
    let mut contexts = observed.contexts.iter();
    let found = contexts.find(|context| {
        context.name_any() == reference.name && context.namespace() == binding.namespace()
    });
    let context = found.filter(|context| {
        let status = context.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, READY))
    });
    match context {
        Some(context) => Ok(context),
        None => waiting(format!("NetworkContext {} is not ready", reference.name)),
    }
}

/// Returns whether the network has a Subnet that is ready.
fn subnet(
    observed: &Observed<'_>,
    context: &NetworkContext,
    location: &LocationReference,
) -> Result<(), Need> {
    let deployment = observed.deployment;
    let name = context.name_any();
    let mut claims = observed.subnet_claims.iter();
    let claim = claims.find(|claim| {
        let spec = &claim.spec;
        spec.subnet_class == CLASS
            && spec.ip_family == FAMILY
            && spec.network_context.name == name
            && are_equal(&spec.location, location)
            && !is_terminating(claim.as_ref())
    });
    let Some(claim) = claim else {
        return create_subnet_claim(observed, context, location);
    };
    let owners = claim.owner_references();
    let is_owner = |owner: &OwnerReference| Some(&owner.uid) == deployment.meta().uid.as_ref();
    let is_ours = claim.labels().get(MANAGED_BY.0).map(String::as_str) == Some(MANAGED_BY.1);
    if is_ours && !owners.iter().any(is_owner) {
        let owners = [owners, &[owner_reference(deployment, false)]].concat();
        let step = ObjectStep::OwnSubnetClaim(Arc::clone(claim), owners);
        return Err(Need::Step(step));
    }
    let status = claim.status.as_ref();
    let is_ready = status.is_some_and(|status| condition::is_true(&status.conditions, READY));
    let reference = status.and_then(|status| status.subnet_ref.as_ref());
    let Some(reference) = reference.filter(|_| is_ready) else {
        return waiting(format!("SubnetClaim {} is not ready", claim.name_any()));
    };
    let mut subnets = observed.subnets.iter();
    let is_ready = subnets.any(|subnet| {
        let status = subnet.status.as_ref();
        subnet.name_any() == reference.name
            && status.is_some_and(|status| condition::is_true(&status.conditions, READY))
    });
    match is_ready {
        true => Ok(()),
        false => waiting(format!("Subnet {} is not ready", reference.name)),
    }
}

fn create_subnet_claim(
    observed: &Observed<'_>,
    context: &NetworkContext,
    location: &LocationReference,
) -> Result<(), Need> {
    let deployment = observed.deployment;
    let context = context.name_any();
    let readable = format!("{context}-0");
    let hashed = names::with_hash(&readable, &names::hash(&[&context, &location.name]));
    let is_possible = readable.len() <= names::OBJECT_NAME_MAX;
    let taken = |name: &str| {
        let mut claims = observed.subnet_claims.iter();
        claims.find(|claim| claim.metadata.name.as_deref() == Some(name))
    };
    let name = match taken(&readable).filter(|_| is_possible) {
        Some(ending) if is_terminating(ending.as_ref()) => {
            return waiting(format!("SubnetClaim {readable} is being deleted"));
        }
        None if is_possible => readable,
        _ if taken(&hashed).is_none() => hashed,
        _ => {
            return waiting(format!(
                "SubnetClaim {hashed} of another network must end first"
            ));
        }
    };
    let (label, value) = MANAGED_BY;
    let claim = SubnetClaim {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: deployment.namespace(),
            labels: Some([(label.to_owned(), value.to_owned())].into()),
            owner_references: Some(vec![owner_reference(deployment, false)]),
            ..ObjectMeta::default()
        },
        spec: SubnetClaimSpec {
            subnet_class: CLASS.to_owned(),
            network_context: LocalReference { name: context },
            location: location.clone(),
            ip_family: FAMILY.to_owned(),
        },
        status: None,
    };
    Err(Need::Step(ObjectStep::CreateSubnetClaim(Box::new(claim))))
}

#[cfg(test)]
mod tests;
