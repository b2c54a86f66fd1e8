//! What is watched on the hub.

use api::karmada::{PropagationPolicy, ResourceBinding};
use api::{Instance, WorkloadDeployment};
use kube::Client;
use multicluster::Cache;
use multicluster::cache::Index;

use super::cells::Cells;
use super::policy_locks::PolicyLocks;
use crate::objects::Namespace;

/// The hub and what is watched there.
pub(crate) struct HubCaches {
    pub(crate) client: Client,
    pub(crate) namespaces: Cache<Namespace>,
    /// By the project that their labels name.
    pub(crate) namespaces_of: Index<Namespace>,
    /// By the namespace of a project that their labels name, as an [`Upstream`] is written.
    ///
    /// [`Upstream`]: crate::hub::upstream::Upstream
    pub(crate) namespaces_for: Index<Namespace>,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    /// By what makes a difference to policies.
    pub(crate) copies_for_policies: Index<WorkloadDeployment>,
    pub(crate) policies: Cache<PropagationPolicy>,
    pub(crate) policy_locks: PolicyLocks,
    /// Nothing waits for them but the deletion of policies.
    pub(crate) bindings: Cache<ResourceBinding>,
    /// By what makes a difference to policies.
    pub(crate) bindings_for_policies: Index<ResourceBinding>,
    pub(crate) instances: Cache<Instance>,
    /// By namespace and name of their deployment.
    pub(crate) instances_of: Index<Instance>,
    /// Which cells can be reached, and what goes to them.
    pub(crate) cells: Cells,
}
