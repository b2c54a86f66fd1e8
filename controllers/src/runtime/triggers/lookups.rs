//! The lookups in caches that triggers use. They are traits, so tests of triggers need no API server.

use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::references::Source;
use api::{HubNamespace, ProjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::cache::NamespacedName;

use crate::hub::upstream::{self, Upstream};
use crate::objects::Namespace;
use crate::runtime::keys::{HubKey, ProjectKey};

/// Lookups in the caches of the hub, and of the projects that this process serves.
pub(crate) trait HubLookups {
    /// Returns the hub namespace of this name.
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>>;

    /// Returns the hub namespaces whose labels identify this project.
    fn namespaces_of_project(&self, project: &ProjectName) -> Vec<Arc<Namespace>>;

    /// Returns the hub namespaces whose labels identify this namespace of a project.
    fn namespaces_of(&self, upstream: &Upstream) -> Vec<Arc<Namespace>>;

    /// Returns the metadata of the WorkloadDeployments in a hub namespace.
    fn copies_in(&self, hub_namespace: &str) -> Vec<ObjectMeta>;

    /// Returns the metadata of the Instances in a hub namespace.
    fn instances_in(&self, hub_namespace: &str) -> Vec<ObjectMeta>;

    /// Returns the Instances of a WorkloadDeployment in a hub namespace.
    fn instances_of(&self, hub_namespace: &str, deployment: &str) -> Vec<NamespacedName>;

    /// Returns the Instances on the hub that a cell, or a cell below it, has copied there.
    fn instances_in_cell(&self, cell: &str) -> Vec<NamespacedName>;

    /// Returns the ResourceBinding of this name, if it can be decoded.
    fn binding(&self, hub_namespace: &str, name: &str) -> Option<Arc<ResourceBinding>>;

    /// Returns the ResourceBindings that schedule a WorkloadDeployment to the Cluster that leads to this cell.
    fn bindings_of_cell(&self, cell: &str) -> Vec<Arc<ResourceBinding>>;

    /// Returns the metadata of the WorkloadDeployments in a namespace of a project. Returns an empty list for a project
    /// that this process does not serve.
    fn deployments_in(&self, upstream: &Upstream) -> Vec<ObjectMeta>;

    /// Returns the WorkloadDeployments of all projects that this process serves.
    fn all_deployments(&self) -> Vec<ProjectKey>;

    /// Returns the WorkloadSummaries in a namespace of a project that are evaluated: the oldest ones. Returns an empty
    /// list for a project that this process does not serve.
    fn summaries_in(&self, upstream: &Upstream) -> Vec<ProjectKey>;

    /// Returns the WorkloadSummaries of all projects that this process serves.
    fn all_summaries(&self) -> Vec<ProjectKey>;

    /// Returns the project's namespace that a hub namespace belongs to, according to the labels of the hub namespace,
    /// or according to its last labels if the hub namespace was deleted a moment ago.
    fn upstream_of(&self, hub_namespace: &str) -> Option<Upstream> {
        let namespace = self.namespace(hub_namespace)?;
        Upstream::of(namespace.meta()).ok()
    }

    /// Returns the key of a hub namespace if the cache has the Namespace. Otherwise returns `None`, because a later
    /// event of the Namespace triggers the reconciliation.
    fn hub_key(&self, hub_namespace: &str) -> Option<HubKey> {
        let namespace = self.namespace(hub_namespace)?;
        hub_key(namespace.meta())
    }

    /// Returns the keys of the hub namespaces of a project.
    fn hub_keys_of_project(&self, project: &ProjectName) -> Vec<HubKey> {
        let namespaces = self.namespaces_of_project(project);
        let keys = namespaces.iter().map(|namespace| hub_key(namespace.meta()));
        keys.flatten().collect()
    }
}

/// Lookups in the caches of one project.
pub(crate) trait ProjectLookups {
    /// Returns the name of the project.
    fn project(&self) -> &ProjectName;

    /// Returns the lookups of the hub.
    fn hub(&self) -> &dyn HubLookups;

    /// Returns all Workloads.
    fn workloads(&self) -> Vec<NamespacedName>;

    /// Returns all WorkloadDeployments.
    fn deployments(&self) -> Vec<NamespacedName>;

    /// Returns all Instances.
    fn instances(&self) -> Vec<NamespacedName>;

    /// Returns all WorkloadSummaries.
    fn summaries(&self) -> Vec<NamespacedName>;

    /// Returns the WorkloadSummaries in a namespace that are evaluated: the oldest ones.
    fn summaries_in(&self, namespace: &str) -> Vec<NamespacedName>;

    /// Returns the metadata of the WorkloadDeployments in a namespace.
    fn deployments_in(&self, namespace: &str) -> Vec<ObjectMeta>;

    /// Returns the metadata of the Instances in a namespace.
    fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta>;

    /// Returns the WorkloadDeployments in this namespace that use or list a source.
    fn deployments_on(&self, namespace: &str, source: &Source) -> Vec<NamespacedName>;

    /// Returns the Workloads that use this Network.
    fn workloads_on(&self, network: &ObjectMeta) -> Vec<NamespacedName>;

    /// Returns the identity that is in the labels of the hub namespaces of a project's namespace.
    fn upstream(&self, namespace: &str) -> Upstream {
        Upstream {
            project: self.project().clone(),
            namespace: namespace.to_owned(),
        }
    }
}

/// Lookups in the caches of a cell.
pub(crate) trait CellLookups {
    /// Returns the names of the Namespaces of the cell whose labels identify this project.
    fn namespaces_of(&self, project: &str) -> Vec<String>;

    /// Returns the project that the labels of a Namespace of the cell identify.
    fn project_of(&self, namespace: &str) -> Option<ProjectName>;

    /// Returns the metadata of the Instances in a namespace.
    fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta>;

    /// Returns namespace and name of all Instances.
    fn instances(&self) -> Vec<NamespacedName>;

    /// Returns namespace and name of the Instances that hold this NetworkInterface.
    fn instances_on(&self, interface: &ObjectMeta) -> Vec<NamespacedName>;
}

/// Returns the key of the hub namespace with this metadata.
pub(crate) fn hub_key(namespace: &ObjectMeta) -> Option<HubKey> {
    Some(HubKey {
        project: upstream::project(namespace),
        namespace: HubNamespace::new(namespace.name.as_deref()?).ok()?,
    })
}
