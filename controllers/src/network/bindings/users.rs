//! The users of the NetworkBindings of a WorkloadDeployment: its Instances and its template.

use std::sync::Arc;

use api::instance::LocationReference;
use api::networking::{NetworkBinding, SubnetClaim};
use api::{Instance, WorkloadDeployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use super::attachment::{Attachment, is_own};
use crate::cell::location::{are_equal, completed};
use crate::gate;
use crate::network::plan::ObjectStep;
use crate::objects::{controller_uid, is_managed, is_terminating};

/// The users of the bindings of a WorkloadDeployment.
#[derive(Clone, Copy)]
pub(super) struct Users<'a> {
    pub(super) deployment: &'a WorkloadDeployment,
    /// The location of new Instances. `None` if it is not known.
    pub(super) location: Option<&'a LocationReference>,
    /// The Instances of the namespace. `None` if one of them cannot be decoded.
    pub(super) instances: Option<&'a [Arc<Instance>]>,
    pub(super) bindings: &'a [Arc<NetworkBinding>],
    /// Number of all bindings of the namespace. Some of them may not be decodable.
    pub(super) binding_count: usize,
}

impl<'a> Users<'a> {
    /// Returns the bindings that nobody needs. What cannot be decoded may need any binding.
    pub(super) fn surplus(self) -> impl Iterator<Item = &'a Arc<NetworkBinding>> {
        let own = self.bindings.iter();
        let own = own.filter(move |it| is_own(self.deployment, it) && !is_terminating(it.as_ref()));
        own.filter(move |binding| !self.need(binding))
    }

    /// Returns whether an Instance uses this binding, or may use it.
    fn use_it(self, binding: &NetworkBinding) -> bool {
        self.any_uses(binding, |_| true)
    }

    /// Returns whether an Instance other than this one uses the binding, or may use it.
    pub(super) fn others_use(self, binding: &NetworkBinding, instance: &Instance) -> bool {
        self.any_uses(binding, |it| it.metadata.name != instance.metadata.name)
    }

    fn any_uses(self, binding: &NetworkBinding, counts: impl Fn(&Instance) -> bool) -> bool {
        let Some(instances) = self.instances else {
            return true;
        };
        let own = instances.iter().filter(|it| self.is_of_deployment(it));
        let mut own = own.filter(|it| counts(it));
        own.any(|instance| match self.place(instance) {
            Some(place) => {
                let place = completed(place, &binding.spec.location);
                self.is_for(binding, self.attachments(instance, place))
            }
            // The Go manager keeps a binding when the template changes, and copies the namespace of a reference. So
            // the names alone say what the Instance uses.
            None => self
                .attachments(instance, &binding.spec.location)
                .any(|it| binding.metadata.name == Some(it.readable_name())),
        })
    }

    /// Returns the changes of SubnetClaims that the deployment owns and does not need any more. There are none while
    /// the network operator has not bound each network: it is not known then which claim is needed.
    pub(super) fn released(self, claims: &[Arc<SubnetClaim>]) -> Vec<ObjectStep> {
        let uid = self.deployment.metadata.uid.as_deref().unwrap_or_default();
        let is_other = |owner: &&OwnerReference| owner.uid != uid;
        let owned = claims.iter().filter(|claim| {
            is_managed(&claim.metadata)
                && !is_terminating(claim.as_ref())
                && !claim.owner_references().iter().all(|it| is_other(&it))
        });
        let surplus: Vec<_> = owned.filter(|claim| !self.need_claim(claim)).collect();
        if surplus.is_empty() || !self.are_bound() {
            return Vec::new();
        }
        let release = |claim: &Arc<SubnetClaim>| {
            let others = claim.owner_references().iter().filter(is_other);
            let others: Vec<_> = others.cloned().collect();
            match others.is_empty() {
                true => ObjectStep::DeleteSubnetClaim(Arc::clone(claim)),
                false => ObjectStep::OwnSubnetClaim(Arc::clone(claim), others),
            }
        };
        surplus.into_iter().map(release).collect()
    }

    fn need(self, binding: &NetworkBinding) -> bool {
        let Some(location) = self.location else {
            return true;
        };
        self.is_for(binding, self.attachments_of_template(location)) || self.use_it(binding)
    }

    /// Returns whether a binding that is needed is in the network of this claim.
    fn need_claim(self, claim: &SubnetClaim) -> bool {
        let mut own = self.bindings.iter().filter(|binding| {
            let context = context_of(binding);
            is_own(self.deployment, binding)
                && context == Some(&*claim.spec.network_context.name)
                && are_equal(&binding.spec.location, &claim.spec.location)
        });
        own.any(|binding| self.need(binding))
    }

    /// Returns whether each network that is needed has a binding with a NetworkContext.
    fn are_bound(self) -> bool {
        let (Some(location), Some(instances)) = (self.location, self.instances) else {
            return false;
        };
        let is_bound = |attachment: Attachment<'_>| {
            let mut bindings = self.bindings.iter();
            bindings.any(|it| {
                attachment.is_served_by(it, self.binding_count) && context_of(it).is_some()
            })
        };
        let mut own = instances.iter().filter(|it| self.is_of_deployment(it));
        self.attachments_of_template(location).all(is_bound)
            && own.all(|instance| {
                let place = self.place(instance);
                let place = place.map(|place| completed(place, location));
                place.is_some_and(|place| self.attachments(instance, place).all(is_bound))
            })
    }

    fn is_of_deployment(self, instance: &Instance) -> bool {
        controller_uid(instance) == self.deployment.metadata.uid.as_deref()
    }

    /// Returns the location of an Instance. It is not known of an Instance that the Go manager has started.
    fn place<'p>(self, instance: &'p Instance) -> Option<&'p LocationReference>
    where
        'a: 'p,
    {
        let own = instance.spec.location.as_ref();
        own.or_else(|| self.location.filter(|_| gate::NETWORK.is_closed(instance)))
    }

    fn attachments<'i>(
        self,
        instance: &'i Instance,
        location: &'i LocationReference,
    ) -> impl Iterator<Item = Attachment<'i>>
    where
        'a: 'i,
    {
        Attachment::all(self.deployment, &instance.spec.network_interfaces, location)
    }

    fn attachments_of_template(
        self,
        location: &'a LocationReference,
    ) -> impl Iterator<Item = Attachment<'a>> {
        let template = &self.deployment.spec.template.spec;
        let own = template.location.as_ref();
        let location = own.map_or(location, |own| completed(own, location));
        Attachment::all(self.deployment, &template.network_interfaces, location)
    }

    fn is_for<'i>(
        self,
        binding: &NetworkBinding,
        attachments: impl IntoIterator<Item = Attachment<'i>>,
    ) -> bool {
        attachments
            .into_iter()
            .any(|it| it.is_served_by(binding, self.binding_count))
    }
}

fn context_of(binding: &NetworkBinding) -> Option<&str> {
    let context = binding.status.as_ref()?.network_context_ref.as_ref()?;
    Some(&context.name)
}
