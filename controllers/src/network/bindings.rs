//! The strategy `Bindings`: a NetworkBinding for each interface of a WorkloadDeployment, and a SubnetClaim for each
//! network in the location. The Instances of the deployment share them.
//!
//! A binding belongs to its WorkloadDeployment. It stays while the template or an Instance needs it: during a rollout
//! the Instances of two templates have different networks. A SubnetClaim is shared by all deployments on the network,
//! and belongs to all of them: it ends with the last one.

mod attachment;
mod need;
mod subnets;
mod users;

use std::sync::Arc;

use api::condition::{self, Condition};
use api::instance::LocationReference;
use api::networking::{
    NETWORK_FAILED_TO_CREATE, NetworkBinding, NetworkContext, READY, Subnet, SubnetClaim,
};
use api::reasons::network_ready as reason;
use api::{Instance, WorkloadDeployment};
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::plan::{Networks, ObjectStep, Verdict};
use crate::cell::location::LocationProblem;
use crate::objects::is_terminating;
use attachment::{Attachment, Found, is_own};
use need::{Need, unreadable, waiting};
use subnets::Subnets;
use users::Users;

/// A snapshot of a WorkloadDeployment, and of the objects in its namespace.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// The location of new Instances of the deployment.
    pub(super) location: &'a Result<LocationReference, LocationProblem>,
    /// The Instances. `None` if one of them cannot be decoded.
    pub(super) instances: Option<&'a [Arc<Instance>]>,
    pub(super) bindings: &'a [Arc<NetworkBinding>],
    /// The bindings that cannot be decoded.
    pub(super) undecodable_bindings: &'a [Arc<InvalidObject>],
    pub(super) contexts: &'a [Arc<NetworkContext>],
    pub(super) subnet_claims: &'a [Arc<SubnetClaim>],
    /// The claims that cannot be decoded.
    pub(super) undecodable_claims: &'a [Arc<InvalidObject>],
    pub(super) subnets: &'a [Arc<Subnet>],
}

/// Returns the Locations that the bindings of a WorkloadDeployment use.
pub(super) fn used_locations<'a>(
    deployment: &WorkloadDeployment,
    bindings: &'a [Arc<NetworkBinding>],
) -> impl Iterator<Item = &'a LocationReference> {
    let own = bindings.iter();
    let own = own.filter(|it| is_own(deployment, it) && !is_terminating(it.as_ref()));
    own.map(|binding| &binding.spec.location)
}

/// Returns what the networks of an Instance in this location need.
pub(super) fn networks(
    observed: Observed<'_>,
    instance: &Instance,
    location: &Result<LocationReference, LocationProblem>,
) -> Networks {
    if is_terminating(instance) || is_terminating(observed.deployment) {
        return Networks::default();
    }
    let location = match location {
        Ok(location) => location,
        Err(problem) => {
            return Networks {
                verdict: problem.clone().into(),
                ..Networks::default()
            };
        }
    };
    let users = observed.users();
    let (step, verdict) = match observed.need(users, instance, location) {
        Ok(()) => (None, Verdict::Ready),
        Err(Need::Step(step)) => (Some(step), Verdict::Unknown),
        Err(Need::Verdict(verdict)) => (None, verdict),
    };
    Networks {
        step,
        verdict,
        location: Some(location.clone()),
        release: leftovers(observed).into_iter().next(),
        ..Networks::default()
    }
}

/// Returns the writes that take back what a WorkloadDeployment does not need any more.
pub(super) fn leftovers(observed: Observed<'_>) -> Vec<ObjectStep> {
    if is_terminating(observed.deployment) {
        return Vec::new();
    }
    let users = observed.users();
    let surplus = users.surplus().cloned();
    let mut steps: Vec<_> = surplus.map(ObjectStep::DeleteBinding).collect();
    steps.extend(users.released(observed.subnet_claims));
    steps
}

impl<'a> Observed<'a> {
    fn users(self) -> Users<'a> {
        Users {
            deployment: self.deployment,
            location: self.location.as_ref().ok(),
            instances: self.instances,
            bindings: self.bindings,
            binding_count: self.bindings.len() + self.undecodable_bindings.len(),
        }
    }

    /// Returns what comes first. All bindings are made before any of them is awaited.
    fn need(
        self,
        users: Users<'_>,
        instance: &Instance,
        location: &LocationReference,
    ) -> Result<(), Need> {
        let interfaces = &instance.spec.network_interfaces;
        let attachments = Attachment::all(self.deployment, interfaces, location);
        let mut found = Vec::new();
        for attachment in attachments {
            let is_used = |binding: &_| users.others_use(binding, instance);
            match attachment.find(self.bindings, self.undecodable_bindings, is_used) {
                Found::Binding(binding) => found.push(Ok(binding)),
                Found::Free(name) => {
                    let binding = Box::new(attachment.new_binding(name));
                    return Err(Need::Step(ObjectStep::CreateBinding(binding)));
                }
                Found::Taken(name) => {
                    found.push(waiting(format!("NetworkBinding {name} must end first")));
                }
                Found::Unreadable(invalid) => {
                    found.push(unreadable::<NetworkBinding, _>(invalid));
                }
            }
        }
        let contexts = found.into_iter();
        let contexts = contexts.map(|binding| binding.and_then(|it| self.context(it)));
        let mut contexts = contexts.collect::<Result<Vec<_>, _>>()?;
        contexts.sort_by_key(|context| context.name_any());
        contexts.dedup_by_key(|context| context.name_any());
        let subnets = Subnets {
            deployment: self.deployment,
            claims: self.subnet_claims,
            undecodable: self.undecodable_claims,
            made: self.subnets,
        };
        let needs = contexts.into_iter();
        let needs = needs.map(|context| subnets.need(context, location));
        // A claim that is missing is made before another one is awaited.
        let (steps, others): (Vec<_>, Vec<_>) =
            needs.partition(|it| matches!(it, Err(Need::Step(_))));
        steps.into_iter().chain(others).collect()
    }

    /// Returns the network of a binding in the location, if it is ready.
    fn context(self, binding: &NetworkBinding) -> Result<&'a NetworkContext, Need> {
        let network = &binding.spec.network.name;
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
        let mut contexts = self.contexts.iter();
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
}

#[cfg(test)]
mod tests;
