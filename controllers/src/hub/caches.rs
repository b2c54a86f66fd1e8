//! The caches of the hub.

use std::sync::Arc;

use api::karmada::{ClusterOverridePolicy, PropagationPolicy, ResourceBinding};
use api::{CellRule, CityCode, DEFAULT_NAMESPACE, HubNamespace, Instance, WorkloadDeployment};
use kube::{Client, Resource};
use multicluster::Cache;
use multicluster::cache::{Index, Undecodable};

use super::cells::Cells;
use super::departed::DepartedNamespaces;
use super::heartbeats::WatchedLowerHubs;
use super::identity::HubIdentity;
use super::policy_refusals::PolicyRefusals;
use crate::deletion_locks::DeletionLocks;
use crate::objects::Namespace;

/// The hub and the caches of the objects that are watched there.
pub(crate) struct HubCaches {
    pub(crate) client: Client,
    pub(crate) namespaces: Cache<Namespace>,
    /// The identities of the Namespaces that were deleted a moment ago.
    pub(crate) departed: DepartedNamespaces,
    /// The Namespaces, indexed by the project in their labels.
    pub(crate) namespaces_of: Index<Namespace>,
    /// The Namespaces, indexed by the project and namespace in their labels, in the form of [`Upstream`]'s `Display`.
    ///
    /// [`Upstream`]: crate::hub::upstream::Upstream
    pub(crate) namespaces_for: Index<Namespace>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    /// The copies, indexed by the fields that decide about policies. See `policy::kinds`.
    pub(crate) copies_for_policies: Index<WorkloadDeployment>,
    pub(crate) policies: Cache<PropagationPolicy>,
    /// The locks of the policies of each city. They prevent the creation of a copy while its policy is being deleted.
    pub(crate) policy_locks: DeletionLocks<(HubNamespace, CityCode)>,
    pub(crate) policy_refusals: PolicyRefusals,
    /// The bindings. Only the deletion of policies requires that this cache is complete.
    pub(crate) bindings: Cache<ResourceBinding>,
    /// The bindings, indexed by the fields that decide about policies. See `policy::kinds`.
    pub(crate) bindings_for_policies: Index<ResourceBinding>,
    /// The rules of cells. The cache stays empty if the hub does not serve the kind.
    pub(crate) cell_rules: Cache<CellRule>,
    pub(crate) override_policies: Cache<ClusterOverridePolicy>,
    pub(crate) instances: Cache<Instance>,
    /// The Instances, indexed by namespace and name of their WorkloadDeployment.
    pub(crate) instances_of: Index<Instance>,
    /// The Instances, indexed by their cell and by the lower hubs above it.
    pub(crate) instances_in_cell: Index<Instance>,
    /// The reachability of the cells, and the bindings of each cell.
    pub(crate) cells: Cells,
    pub(crate) lower_hubs: WatchedLowerHubs,
}

impl HubCaches {
    /// Returns the identity of the hub, as far as the cache knows it.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] if the hub's Namespace `default` cannot be decoded.
    pub(crate) fn identity(&self) -> Result<HubIdentity, Undecodable> {
        let default = self.namespaces.get("", DEFAULT_NAMESPACE)?;
        Ok(HubIdentity::of(default.as_deref().map(Resource::meta)))
    }

    /// Returns the Instances of a WorkloadDeployment on the hub.
    pub(crate) fn instances_of(&self, hub_namespace: &str, deployment: &str) -> Vec<Arc<Instance>> {
        let value = deployment_index_value(hub_namespace, deployment);
        self.instances_of.get(&value)
    }
}

/// Returns the value of `HubCaches::instances_of` for the Instances of a WorkloadDeployment.
pub(crate) fn deployment_index_value(hub_namespace: &str, deployment: &str) -> String {
    format!("{hub_namespace}/{deployment}")
}
