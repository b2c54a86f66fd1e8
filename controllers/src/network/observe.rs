//! Reads the objects of the network operator from the caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::instance::LocationReference;
use api::networking::{Location, NetworkBinding, NetworkContext, Subnet, SubnetClaim};
use api::reasons::network_ready as reason;
use api::{Instance, WorkloadDeployment};
use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use multicluster::Cache;

use super::bindings;
use super::plan::Verdict;
use crate::cell::CellCaches;
use crate::cell::location::{self, LocationProblem};

/// What the strategy `Bindings` needs to know about a namespace.
pub(super) struct ObjectsOfBindings {
    /// The Locations of all namespaces.
    locations: Vec<Arc<Location>>,
    /// The Locations that cannot be decoded.
    undecodable_locations: Vec<Arc<InvalidObject>>,
    instances: Option<Vec<Arc<Instance>>>,
    bindings: Vec<Arc<NetworkBinding>>,
    undecodable_bindings: Vec<Arc<InvalidObject>>,
    contexts: Vec<Arc<NetworkContext>>,
    subnet_claims: Vec<Arc<SubnetClaim>>,
    undecodable_claims: Vec<Arc<InvalidObject>>,
    subnets: Vec<Arc<Subnet>>,
}

impl ObjectsOfBindings {
    /// Returns the objects in a namespace.
    ///
    /// # Errors
    ///
    /// The verdict about networks as for [`listed`].
    pub(super) fn list(cell: &CellCaches, namespace: &str) -> Result<Self, Verdict> {
        let networks = &cell.networks;
        let (locations, undecodable_locations) = listed_everywhere(&networks.locations)?;
        Ok(Self {
            locations,
            undecodable_locations,
            instances: cell.instances.list(namespace).ok(),
            bindings: listed(&networks.bindings, namespace)?,
            undecodable_bindings: networks.bindings.undecodable(namespace),
            contexts: listed(&networks.contexts, namespace)?,
            subnet_claims: listed(&networks.subnet_claims, namespace)?,
            undecodable_claims: networks.subnet_claims.undecodable(namespace),
            subnets: listed(&networks.subnets, namespace)?,
        })
    }

    /// Returns the location of an Instance of the deployment. The Instance prefers its `own` one.
    ///
    /// # Errors
    ///
    /// The errors of [`location::location_of_city`].
    pub(super) fn location(
        &self,
        deployment: &WorkloadDeployment,
        own: Option<&LocationReference>,
    ) -> Result<LocationReference, LocationProblem> {
        let used = bindings::used_locations(deployment, &self.bindings);
        let preferred = own.into_iter().chain(used);
        let city = &deployment.spec.city_code;
        location::location_of_city(
            &self.locations,
            &self.undecodable_locations,
            preferred,
            city,
        )
    }

    /// Returns the snapshot of a deployment whose new Instances are in this location.
    pub(super) fn of<'a>(
        &'a self,
        deployment: &'a WorkloadDeployment,
        location: &'a Result<LocationReference, LocationProblem>,
    ) -> bindings::Observed<'a> {
        bindings::Observed {
            deployment,
            location,
            instances: self.instances.as_deref(),
            bindings: &self.bindings,
            undecodable_bindings: &self.undecodable_bindings,
            contexts: &self.contexts,
            subnet_claims: &self.subnet_claims,
            undecodable_claims: &self.undecodable_claims,
            subnets: &self.subnets,
        }
    }
}

/// Returns the objects of a kind in a namespace. Those that cannot be decoded are missing.
///
/// # Errors
///
/// The verdict about networks if the API server does not serve the kind, or has not listed it yet.
pub(super) fn listed<K: Resource<DynamicType = ()>>(
    cache: &Cache<K>,
    namespace: &str,
) -> Result<Vec<Arc<K>>, Verdict> {
    is_listed(cache).map(|()| cache.readable(namespace))
}

/// The objects that can be decoded, and the others.
type Objects<K> = (Vec<Arc<K>>, Vec<Arc<InvalidObject>>);

/// Returns the objects of a kind in all namespaces, as [`listed`].
fn listed_everywhere<K: Resource<DynamicType = ()>>(
    cache: &Cache<K>,
) -> Result<Objects<K>, Verdict> {
    is_listed(cache)?;
    let namespaces = cache.keys().into_iter().map(|(namespace, _)| namespace);
    let namespaces: BTreeSet<_> = namespaces.collect();
    let readable = namespaces.iter().flat_map(|it| cache.readable(it));
    let undecodable = namespaces.iter().flat_map(|it| cache.undecodable(it));
    Ok((readable.collect(), undecodable.collect()))
}

/// Returns whether the objects of a kind are known.
///
/// # Errors
///
/// The verdict about networks as for [`listed`].
pub(super) fn is_listed<K: Resource<DynamicType = ()>>(cache: &Cache<K>) -> Result<(), Verdict> {
    if let Some(message) = cache.refusal() {
        return Err(Verdict::Blocked {
            reason: reason::KIND_NOT_SERVED,
            message,
        });
    }
    match *cache.synced().borrow() {
        true => Ok(()),
        false => Err(Verdict::Unlisted(K::plural(&()).into_owned())),
    }
}
