//! The API servers and caches of a cell.

pub(crate) mod location;
pub(crate) mod networks;
pub(crate) mod rules;

use std::sync::Arc;

use api::instance::LocationReference;
use api::{CellName, Instance, ProjectName, WorkloadDeployment};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, ResourceExt};
use multicluster::Cache;
use multicluster::cache::{Index, NamespacedName, Reflector};

use crate::hub::upstream;
use crate::objects::{Namespace, controller_name, controller_uid};
use crate::runtime::triggers::lookups::CellLookups;
use location::LocationProblem;
use networks::{NetworkCaches, Networking};

/// The cell of this process. The hub is read with GET requests for single objects and is not watched, because a cell
/// has no permission to list there.
pub(crate) struct CellCaches {
    pub(crate) name: CellName,
    /// The names that the cell had before.
    pub(crate) former_names: Vec<CellName>,
    pub(crate) client: Client,
    pub(crate) hub: Client,
    pub(crate) deployments: Cache<WorkloadDeployment>,
    pub(crate) instances: Cache<Instance>,
    /// The HorizontalPodAutoscalers. A cell need not serve them.
    pub(crate) autoscalers: Cache<HorizontalPodAutoscaler>,
    /// The Namespaces. The cache stays empty in a cell that does not enforce quota.
    pub(crate) namespaces: Cache<Namespace>,
    /// The Namespaces, indexed by the project in their labels.
    pub(crate) namespaces_of: Index<Namespace>,
    pub(crate) networks: NetworkCaches,
}

impl CellCaches {
    /// Adds the index of Namespaces by project.
    pub(crate) fn by_project(namespaces: &Reflector<Namespace>) -> Index<Namespace> {
        namespaces.index(|namespace| {
            let project = upstream::project(namespace.meta());
            project.iter().map(ToString::to_string).collect()
        })
    }

    /// Returns the location of new Instances in this city, if it is known.
    pub(crate) fn location_of_new(&self, city: &str) -> Option<LocationReference> {
        match self.networks.strategy {
            Networking::InterfaceClaims => self.serving_location(city).ok(),
            // The network controller knows which Location the deployment uses.
            Networking::Bindings | Networking::Disabled => None,
        }
    }

    /// Returns the location that the cell serves for Instances in this city.
    ///
    /// # Errors
    ///
    /// The errors of [`location::serving_location`].
    pub(crate) fn serving_location(
        &self,
        city: &str,
    ) -> Result<LocationReference, LocationProblem> {
        let serving = &self.networks.serving_locations;
        location::serving_location(&serving.readable(""), &serving.undecodable(""), city)
    }

    /// Returns the WorkloadDeployment that owns this Instance, with the rules of the cell in its template.
    pub(crate) fn deployment_of(&self, instance: &Instance) -> Option<Arc<WorkloadDeployment>> {
        let namespace = instance.namespace()?;
        let name = controller_name::<WorkloadDeployment>(&instance.metadata)?;
        let deployment = self.deployments.get(&namespace, name).ok()??;
        let is_owner = controller_uid(instance) == deployment.metadata.uid.as_deref();
        is_owner.then(|| rules::with_rules(deployment))
    }

    /// Returns the project's namespace that a Namespace of the cell belongs to.
    ///
    /// # Errors
    ///
    /// A sentence about why it is unknown.
    pub(crate) fn upstream_of(&self, namespace: &str) -> Result<upstream::Upstream, String> {
        let metadata = self.namespaces.metadata_of("", namespace);
        upstream::Upstream::of(&metadata.unwrap_or_default()).map_err(|error| {
            format!("Namespace {namespace} does not identify its project: {error}")
        })
    }

    /// Returns whether the cell has an Instance of this project.
    pub(crate) fn has_instances_of(&self, project: &ProjectName) -> bool {
        let mut namespaces = CellLookups::namespaces_of(self, project.as_str()).into_iter();
        namespaces.any(|namespace| !self.instances_in(&namespace).is_empty())
    }
}

impl CellLookups for CellCaches {
    fn namespaces_of(&self, project: &str) -> Vec<String> {
        let namespaces = self.namespaces_of.get(project);
        namespaces
            .iter()
            .map(|namespace| namespace.name_any())
            .collect()
    }

    fn project_of(&self, namespace: &str) -> Option<ProjectName> {
        upstream::project(&self.namespaces.metadata_of("", namespace)?)
    }

    fn instances_in(&self, namespace: &str) -> Vec<ObjectMeta> {
        self.instances.metadata(namespace)
    }

    fn instances(&self) -> Vec<NamespacedName> {
        self.instances.keys()
    }

    fn instances_on(&self, interface: &ObjectMeta) -> Vec<NamespacedName> {
        let claims = self.networks.claims_of(interface);
        let instances = claims.iter().filter_map(|claim| {
            let name = controller_name::<Instance>(&claim.metadata)?.to_owned();
            Some((claim.namespace()?, name))
        });
        instances.collect()
    }
}
