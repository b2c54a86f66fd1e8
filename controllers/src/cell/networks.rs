//! The caches of the network operator's kinds in a cell, and the location that the cell serves.

use std::sync::Arc;

use api::networking::{
    Location, NetworkBinding, NetworkContext, NetworkInterface, NetworkInterfaceClaim,
    ServingLocation, Subnet, SubnetClaim,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use multicluster::cache::{Change, Index, Reflector};
use multicluster::{Cache, Metrics};
use serde::de::DeserializeOwned;

use crate::runtime::triggers::{CellSource, NO_OBJECT};
use crate::runtime::wiring::Wiring;

/// How a cell makes the networks of Instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Networking {
    /// The cell makes no networks, and Instances do not wait for networks.
    #[default]
    Disabled,
    /// A NetworkBinding per interface of a WorkloadDeployment, and a SubnetClaim per network.
    Bindings,
    /// A NetworkInterfaceClaim per interface of an Instance.
    InterfaceClaims,
}

/// The caches of the network operator's kinds. Those that the strategy does not use stay empty.
pub(crate) struct NetworkCaches {
    pub(crate) strategy: Networking,
    pub(crate) serving_locations: Cache<ServingLocation>,
    pub(crate) claims: Cache<NetworkInterfaceClaim>,
    /// The NetworkInterfaceClaims, by namespace and name of their NetworkInterface.
    pub(crate) claims_of: Index<NetworkInterfaceClaim>,
    pub(crate) interfaces: Cache<NetworkInterface>,
    pub(crate) locations: Cache<Location>,
    pub(crate) bindings: Cache<NetworkBinding>,
    pub(crate) contexts: Cache<NetworkContext>,
    pub(crate) subnet_claims: Cache<SubnetClaim>,
    pub(crate) subnets: Cache<Subnet>,
}

impl NetworkCaches {
    /// Returns the NetworkInterfaceClaims that name this NetworkInterface.
    pub(crate) fn claims_of(&self, interface: &ObjectMeta) -> Vec<Arc<NetworkInterfaceClaim>> {
        let namespace = interface.namespace.as_deref().unwrap_or_default();
        let name = interface.name.as_deref().unwrap_or_default();
        self.claims_of.get(&format!("{namespace}/{name}"))
    }
}

/// Returns the NetworkInterface of a claim, for the index.
fn interface_of(claim: &NetworkInterfaceClaim) -> Vec<String> {
    let status = claim.status.as_ref();
    let interface = status.and_then(|status| status.network_interface_ref.as_ref());
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let values = interface.map(|interface| format!("{namespace}/{}", interface.name));
    values.into_iter().collect()
}

/// Fills the caches of the network operator's kinds.
pub(crate) struct NetworkReflectors {
    serving_locations: Reflector<ServingLocation>,
    claims: Reflector<NetworkInterfaceClaim>,
    interfaces: Reflector<NetworkInterface>,
    locations: Reflector<Location>,
    bindings: Reflector<NetworkBinding>,
    contexts: Reflector<NetworkContext>,
    subnet_claims: Reflector<SubnetClaim>,
    subnets: Reflector<Subnet>,
}

/// Starts the watch of a kind.
pub(crate) trait WatchKind {
    /// Watches a kind. `what` is its name in logs, and `without` what is missing if it cannot be watched.
    fn watch<K>(&mut self, what: &'static str, without: &'static str, reflector: Reflector<K>)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static;
}

/// Watches a kind if the cell serves it. Other controllers do not need it.
pub(crate) struct Optional<'w, 't> {
    pub(crate) wiring: &'w mut Wiring<'t>,
    pub(crate) client: Client,
}

impl WatchKind for Optional<'_, '_> {
    fn watch<K>(&mut self, what: &'static str, without: &'static str, reflector: Reflector<K>)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let client = self.client.clone();
        self.wiring
            .watch_if_served(what, without, reflector, client);
    }
}

const HELD: &str = "Instances with the gate Network wait";

impl NetworkReflectors {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            serving_locations: Reflector::new("cell", metrics),
            claims: Reflector::new("cell", metrics),
            interfaces: Reflector::new("cell", metrics),
            locations: Reflector::new("cell", metrics),
            bindings: Reflector::new("cell", metrics),
            contexts: Reflector::new("cell", metrics),
            subnet_claims: Reflector::new("cell", metrics),
            subnets: Reflector::new("cell", metrics),
        }
    }

    pub(crate) fn caches(&self, strategy: Networking) -> NetworkCaches {
        NetworkCaches {
            strategy,
            serving_locations: self.serving_locations.cache(),
            claims: self.claims.cache(),
            claims_of: self.claims.index(interface_of),
            interfaces: self.interfaces.cache(),
            locations: self.locations.cache(),
            bindings: self.bindings.cache(),
            contexts: self.contexts.cache(),
            subnet_claims: self.subnet_claims.cache(),
            subnets: self.subnets.cache(),
        }
    }

    /// Calls `handler` with each change. After each list of a kind that is needed, there is a change without an object:
    /// the list may be the first one of a kind that was not served before, and may be empty.
    pub(crate) fn on_change(
        &mut self,
        handler: impl Fn(CellSource, Change<'_>) + Clone + Send + Sync + 'static,
    ) {
        on(
            &mut self.serving_locations,
            CellSource::ServingLocations,
            &handler,
        );
        on(&mut self.claims, CellSource::InterfaceClaims, &handler);
        on(&mut self.interfaces, CellSource::Interfaces, &handler);
        on(&mut self.locations, CellSource::Locations, &handler);
        on(&mut self.bindings, CellSource::NetworkBindings, &handler);
        on(&mut self.contexts, CellSource::NetworkContexts, &handler);
        on(&mut self.subnet_claims, CellSource::SubnetClaims, &handler);
        on(&mut self.subnets, CellSource::Subnets, &handler);
    }

    /// Watches the kinds that the strategy uses.
    pub(crate) fn begin(self, strategy: Networking, watch: &mut impl WatchKind) {
        match strategy {
            Networking::Disabled => {}
            Networking::InterfaceClaims => {
                watch.watch("ServingLocations of the cell", HELD, self.serving_locations);
                watch.watch("NetworkInterfaceClaims of the cell", HELD, self.claims);
                watch.watch(
                    "NetworkInterfaces of the cell",
                    "the condition HolderAvailable is not written",
                    self.interfaces,
                );
            }
            Networking::Bindings => {
                watch.watch("Locations of the cell", HELD, self.locations);
                watch.watch("NetworkBindings of the cell", HELD, self.bindings);
                watch.watch("NetworkContexts of the cell", HELD, self.contexts);
                watch.watch("SubnetClaims of the cell", HELD, self.subnet_claims);
                watch.watch("Subnets of the cell", HELD, self.subnets);
            }
        }
    }
}

fn on<K>(
    reflector: &mut Reflector<K>,
    source: CellSource,
    handler: &(impl Fn(CellSource, Change<'_>) + Clone + Send + Sync + 'static),
) where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let (changed, listed) = (handler.clone(), handler.clone());
    reflector.on_change(move |change| changed(source, change));
    reflector.on_listed(move || listed(CellSource::NetworkKinds, NO_OBJECT));
}
