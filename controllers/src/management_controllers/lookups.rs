//! The caches that triggers read.

use std::sync::Arc;

use api::karmada::ResourceBinding;
use api::references::Source;
use api::{Instance, ProjectName, Workload, WorkloadDeployment, WorkloadSummary};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use multicluster::Cache;
use multicluster::cache::{Index, NamespacedName};

use crate::hub::HubCaches;
use crate::hub::caches::deployment_index_value;
use crate::hub::upstream::Upstream;
use crate::objects::Namespace;
use crate::projects::SyncedProjects;
use crate::referenced_data::project_data::index_value;
use crate::runtime::keys::ProjectKey;
use crate::runtime::triggers::lookups::{HubLookups, ProjectLookups};
use crate::summary::by_age::oldest;
use crate::workload::network_key;

/// The hub and the projects that are served. Cheap to clone.
#[derive(Clone)]
pub(super) struct HubView {
    pub(super) hub: Arc<HubCaches>,
    pub(super) projects: Arc<SyncedProjects>,
}

impl HubLookups for HubView {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.hub.namespaces.get("", name).ok().flatten()
    }

    fn namespaces_of_project(&self, project: &ProjectName) -> Vec<Arc<Namespace>> {
        self.hub.namespaces_of.get(project.as_str())
    }

    fn namespaces_of(&self, upstream: &Upstream) -> Vec<Arc<Namespace>> {
        self.hub.namespaces_for.get(&upstream.to_string())
    }

    fn copies_in(&self, hub_namespace: &str) -> Vec<ObjectMeta> {
        self.hub.deployments.metadata(hub_namespace)
    }

    fn instances_in(&self, hub_namespace: &str) -> Vec<ObjectMeta> {
        self.hub.instances.metadata(hub_namespace)
    }

    fn instances_of(&self, hub_namespace: &str, deployment: &str) -> Vec<NamespacedName> {
        let value = deployment_index_value(hub_namespace, deployment);
        self.hub.instances_of.keys(&value)
    }

    fn instances_in_cell(&self, cell: &str) -> Vec<NamespacedName> {
        self.hub.instances_in_cell.keys(cell)
    }

    fn binding(&self, hub_namespace: &str, name: &str) -> Option<Arc<ResourceBinding>> {
        self.hub.bindings.get(hub_namespace, name).ok().flatten()
    }

    fn bindings_of_cell(&self, cell: &str) -> Vec<Arc<ResourceBinding>> {
        self.hub.cells.bindings_of(cell)
    }

    fn deployments_in(&self, upstream: &Upstream) -> Vec<ObjectMeta> {
        let project = self.projects.get(&upstream.project);
        project.map_or_else(
            |_| Vec::new(),
            |project| project.deployments.metadata(&upstream.namespace),
        )
    }

    fn upstream_of(&self, hub_namespace: &str) -> Option<Upstream> {
        match self.namespace(hub_namespace) {
            Some(namespace) => Upstream::of(namespace.meta()).ok(),
            None => self.hub.departed.get(hub_namespace),
        }
    }

    fn all_deployments(&self) -> Vec<ProjectKey> {
        let projects = self.projects.all().into_iter();
        let keys = projects.flat_map(|(name, project)| {
            let keys = project.deployments.keys().into_iter();
            keys.map(move |(namespace, deployment)| ProjectKey::new(&name, &namespace, &deployment))
        });
        keys.collect()
    }

    fn summaries_in(&self, upstream: &Upstream) -> Vec<ProjectKey> {
        let Ok(project) = self.projects.get(&upstream.project) else {
            return Vec::new();
        };
        let summaries = oldest(&project.summaries_by_age, &upstream.namespace).into_iter();
        let keys = summaries
            .map(|(namespace, name)| ProjectKey::new(&upstream.project, &namespace, &name));
        keys.collect()
    }

    fn all_summaries(&self) -> Vec<ProjectKey> {
        let projects = self.projects.all().into_iter();
        let keys = projects.flat_map(|(name, project)| {
            let keys = project.summaries.keys().into_iter();
            keys.map(move |(namespace, summary)| ProjectKey::new(&name, &namespace, &summary))
        });
        keys.collect()
    }
}

/// The caches of one project. They also work before the project is served.
pub(super) struct ProjectView {
    pub(super) name: ProjectName,
    pub(super) hub: HubView,
    pub(super) workloads: Cache<Workload>,
    /// The Workloads, indexed by the Networks that they use.
    pub(super) workloads_on: Index<Workload>,
    pub(super) deployments: Cache<WorkloadDeployment>,
    /// The WorkloadDeployments, indexed by the ConfigMaps and Secrets that they use or list.
    pub(super) deployments_on: Index<WorkloadDeployment>,
    pub(super) instances: Cache<Instance>,
    pub(super) summaries: Cache<WorkloadSummary>,
    /// The WorkloadSummaries, indexed by namespace and age.
    pub(super) summaries_by_age: Index<WorkloadSummary>,
}

impl ProjectLookups for ProjectView {
    fn project(&self) -> &ProjectName {
        &self.name
    }

    fn hub(&self) -> &dyn HubLookups {
        &self.hub
    }

    fn workloads(&self) -> Vec<NamespacedName> {
        self.workloads.keys()
    }

    fn deployments(&self) -> Vec<NamespacedName> {
        self.deployments.keys()
    }

    fn instances(&self) -> Vec<NamespacedName> {
        self.instances.keys()
    }

    fn summaries(&self) -> Vec<NamespacedName> {
        self.summaries.keys()
    }

    fn summaries_in(&self, namespace: &str) -> Vec<NamespacedName> {
        oldest(&self.summaries_by_age, namespace)
    }

    fn deployments_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        self.deployments.metadata(namespace)
    }

    fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        self.instances.metadata(namespace)
    }

    fn deployments_on(&self, namespace: &str, source: &Source) -> Vec<NamespacedName> {
        self.deployments_on.keys(&index_value(namespace, source))
    }

    fn workloads_on(&self, network: &ObjectMeta) -> Vec<NamespacedName> {
        self.workloads_on.keys(&network_key(network))
    }
}

/// A project that has no caches, because discovery no longer lists it.
pub(super) struct RemovedProject {
    pub(super) name: ProjectName,
    pub(super) hub: HubView,
}

impl ProjectLookups for RemovedProject {
    fn project(&self) -> &ProjectName {
        &self.name
    }

    fn hub(&self) -> &dyn HubLookups {
        &self.hub
    }

    fn workloads(&self) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn deployments(&self) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn instances(&self) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn summaries(&self) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn summaries_in(&self, _namespace: &str) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn deployments_in(&self, _namespace: &str) -> Vec<ObjectMeta> {
        Vec::new()
    }

    fn instances_in(&self, _namespace: &str) -> Vec<ObjectMeta> {
        Vec::new()
    }

    fn deployments_on(&self, _namespace: &str, _source: &Source) -> Vec<NamespacedName> {
        Vec::new()
    }

    fn workloads_on(&self, _network: &ObjectMeta) -> Vec<NamespacedName> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
