//! The SubnetClaim and the Subnet of a network in a location.

use std::sync::Arc;

use api::WorkloadDeployment;
use api::condition;
use api::instance::LocationReference;
use api::network_interface::LocalReference;
use api::networking::{NetworkContext, READY, Subnet, SubnetClaim, SubnetClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use super::need::{Need, unreadable, waiting};
use crate::cell::location::are_equal;
use crate::names;
use crate::network::plan::ObjectStep;
use crate::objects::{
    MANAGED_BY, is_managed, is_terminating, owner_reference, undecodable_of_name,
};

/// Class of the Subnets of Instances.
const CLASS: &str = "private";
/// Family of the addresses of Instances.
const FAMILY: &str = "IPv4";

/// The SubnetClaims and the `made` Subnets in the namespace of a WorkloadDeployment.
#[derive(Clone, Copy)]
pub(super) struct Subnets<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    pub(super) claims: &'a [Arc<SubnetClaim>],
    /// The SubnetClaims that cannot be decoded.
    pub(super) undecodable: &'a [Arc<InvalidObject>],
    pub(super) made: &'a [Arc<Subnet>],
}

impl Subnets<'_> {
    /// Returns what comes before the network has a Subnet that is ready.
    pub(super) fn need(
        self,
        context: &NetworkContext,
        location: &LocationReference,
    ) -> Result<(), Need> {
        let deployment = self.deployment;
        let name = context.name_any();
        let mut claims = self.claims.iter();
        let claim = claims.find(|claim| {
            let spec = &claim.spec;
            spec.subnet_class == CLASS
                && spec.ip_family == FAMILY
                && spec.network_context.name == name
                && are_equal(&spec.location, location)
                && !is_terminating(claim.as_ref())
        });
        let Some(claim) = claim else {
            return self.create_claim(&name, location);
        };
        let owners = claim.owner_references();
        let is_owner =
            |owner: &OwnerReference| Some(&owner.uid) == deployment.metadata.uid.as_ref();
        let is_ours = is_managed(&claim.metadata);
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
        let mut subnets = self.made.iter();
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

    fn create_claim(self, context: &str, location: &LocationReference) -> Result<(), Need> {
        let of_name = |name: &str| {
            let mut claims = self.claims.iter();
            claims.find(|claim| claim.metadata.name.as_deref() == Some(name))
        };
        let readable = format!("{context}-0");
        let parts = [context, &location.name];
        // One name is free, because there is one more name than there are claims.
        let count = self.claims.len() + self.undecodable.len() + 1;
        let names = || names::derived_object_names(&readable, &parts).take(count);
        let invalid = names().find_map(|it| undecodable_of_name(self.undecodable, &it));
        if let Some(invalid) = invalid {
            return unreadable::<SubnetClaim, _>(invalid);
        }
        for name in names() {
            match of_name(&name) {
                None => {
                    let claim = self.new_claim(name, context, location);
                    return Err(Need::Step(ObjectStep::CreateSubnetClaim(Box::new(claim))));
                }
                Some(ending) if is_terminating(ending.as_ref()) => {
                    return waiting(format!("SubnetClaim {name} is being deleted"));
                }
                Some(_) => {}
            }
        }
        waiting(format!(
            "SubnetClaim {readable} of another network must end first"
        ))
    }

    fn new_claim(self, name: String, context: &str, location: &LocationReference) -> SubnetClaim {
        let deployment = self.deployment;
        let (label, value) = MANAGED_BY;
        SubnetClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: deployment.namespace(),
                labels: Some([(label.to_owned(), value.to_owned())].into()),
                owner_references: Some(vec![owner_reference(deployment, false)]),
                ..ObjectMeta::default()
            },
            spec: SubnetClaimSpec {
                subnet_class: CLASS.to_owned(),
                network_context: LocalReference {
                    name: context.to_owned(),
                },
                location: location.clone(),
                ip_family: FAMILY.to_owned(),
            },
            status: None,
        }
    }
}
