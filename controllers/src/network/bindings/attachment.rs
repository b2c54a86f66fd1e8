//! The attachment of an interface to a network in a location, and its NetworkBinding.

use std::sync::Arc;

use api::WorkloadDeployment;
use api::instance::LocationReference;
use api::network_interface::{InstanceNetworkInterface, NetworkReference};
use api::networking::{NetworkBinding, NetworkBindingSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};

use crate::cell::location::are_equal;
use crate::names;
use crate::objects::{
    controller_name, controller_uid, is_terminating, owner_reference, undecodable_of_name,
};

/// An interface of the Instances of a WorkloadDeployment, on a network in a location.
#[derive(Clone, Copy)]
pub(super) struct Attachment<'a> {
    deployment: &'a WorkloadDeployment,
    /// Position of the interface.
    index: usize,
    /// Name of the Network. It is in the namespace of the deployment, whatever the reference says.
    network: &'a str,
    location: &'a LocationReference,
}

/// The binding of an attachment.
pub(super) enum Found<'b> {
    Binding(&'b Arc<NetworkBinding>),
    /// There is none, and it can be created with this name.
    Free(String),
    /// The binding of this name ends soon.
    Taken(String),
    /// It may be this one, which cannot be decoded.
    Unreadable(&'b Arc<InvalidObject>),
}

/// Returns whether the binding belongs to this WorkloadDeployment.
pub(super) fn is_own(deployment: &WorkloadDeployment, binding: &NetworkBinding) -> bool {
    controller_uid(binding) == deployment.metadata.uid.as_deref()
}

impl<'a> Attachment<'a> {
    /// Returns the attachments of these interfaces.
    pub(super) fn all(
        deployment: &'a WorkloadDeployment,
        interfaces: &'a [InstanceNetworkInterface],
        location: &'a LocationReference,
    ) -> impl Iterator<Item = Self> {
        let interfaces = interfaces.iter().enumerate();
        interfaces.map(move |(index, interface)| Self {
            deployment,
            index,
            network: &interface.network.name,
            location,
        })
    }

    /// Returns whether the binding is for this attachment. `bindings` is the number of all bindings in the namespace.
    pub(super) fn is_served_by(&self, binding: &NetworkBinding, bindings: usize) -> bool {
        let name = binding.metadata.name.as_deref();
        is_own(self.deployment, binding)
            && self.is_wanted(binding)
            && self
                .first_name(bindings, |it| (name == Some(&*it)).then_some(()))
                .is_some()
    }

    /// Finds the binding. `undecodable` are the bindings that cannot be decoded. `is_used` tells whether another Instance
    /// uses a binding of the deployment.
    pub(super) fn find<'b>(
        &self,
        bindings: &'b [Arc<NetworkBinding>],
        undecodable: &'b [Arc<InvalidObject>],
        is_used: impl Fn(&NetworkBinding) -> bool,
    ) -> Found<'b> {
        let of_name = |name: &str| {
            let mut bindings = bindings.iter();
            bindings.find(|binding| binding.metadata.name.as_deref() == Some(name))
        };
        let is_ready_to_use = |binding: &&Arc<NetworkBinding>| {
            is_own(self.deployment, binding)
                && self.is_wanted(binding)
                && !is_terminating(binding.as_ref())
        };
        let count = bindings.len() + undecodable.len();
        let own = self.first_name(count, |name| of_name(&name).filter(is_ready_to_use));
        if let Some(own) = own {
            return Found::Binding(own);
        }
        let invalid = self.first_name(count, |name| undecodable_of_name(undecodable, &name));
        if let Some(invalid) = invalid {
            return Found::Unreadable(invalid);
        }
        // A binding that stays keeps its name, and so does one whose end may take as long as the Instances that use it.
        let ends_soon = |binding: &NetworkBinding| match is_own(self.deployment, binding) {
            true => is_terminating(binding) && !is_used(binding),
            // The binding of a former deployment ends with it.
            false => {
                controller_name::<WorkloadDeployment>(binding.meta())
                    == self.deployment.metadata.name.as_deref()
            }
        };
        let free = self.first_name(count, |name| match of_name(&name) {
            None => Some(Found::Free(name)),
            Some(binding) => ends_soon(binding).then_some(Found::Taken(name)),
        });
        free.unwrap_or_else(|| Found::Taken(self.readable_name()))
    }

    /// Returns a new binding of this name.
    pub(super) fn new_binding(&self, name: String) -> NetworkBinding {
        let deployment = self.deployment;
        NetworkBinding {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: deployment.namespace(),
                owner_references: Some(vec![owner_reference(deployment, true)]),
                ..ObjectMeta::default()
            },
            spec: NetworkBindingSpec {
                network: NetworkReference {
                    name: self.network.to_owned(),
                    namespace: deployment.namespace(),
                    ..NetworkReference::default()
                },
                location: self.location.clone(),
            },
            status: None,
        }
    }

    /// Returns whether the binding asks for this network in this location.
    fn is_wanted(&self, binding: &NetworkBinding) -> bool {
        let NetworkBindingSpec { network, location } = &binding.spec;
        let namespace = network.namespace.clone().or_else(|| binding.namespace());
        network.name == self.network
            && namespace == self.deployment.namespace()
            && are_equal(location, self.location)
    }

    /// Returns the name in the Go manager.
    pub(super) fn readable_name(&self) -> String {
        format!("{}-net-{}", self.deployment.name_any(), self.index)
    }

    /// Returns the first result for the possible names of the binding. They are one more than the other bindings, so
    /// one of them is free.
    fn first_name<T>(&self, bindings: usize, pick: impl FnMut(String) -> Option<T>) -> Option<T> {
        let readable = self.readable_name();
        let namespace = self.location.namespace.as_deref().unwrap_or_default();
        let place = [namespace, &self.location.name];
        let parts = [&readable, self.network, place[0], place[1]];
        let mut names = names::derived_object_names(&readable, &parts).take(bindings + 1);
        names.find_map(pick)
    }
}
