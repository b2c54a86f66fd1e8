//! Checks that the hub in use is the hub of an Instance, and that it can prove that an Instance is gone. Another hub
//! may have old objects of the same names: they prove nothing, and nothing is written to them (I-12).

use std::sync::Arc;

use api::identity::cluster_of;
use api::{Instance, WorkloadDeployment, labels};
use kube::Resource;

use super::Projector;
use super::owner::{confirm_owner, known_deployment};
use super::plan::Observed;
use super::plan::evidence::Evidence;
use crate::hub::cells::{CellState, reaches};
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::objects::{Namespace, deployment_name, describe, label};
use crate::projects::ProjectCaches;
use crate::runtime::ReconcileError;
use crate::runtime::hub_proof::{read_from_hub, require_no_contradiction};

impl Projector {
    /// Returns the hub in use, if it is the hub that the WorkloadDeployment of the projection has recorded. Another hub
    /// may have an old Instance of the same name, and proves nothing about the projection.
    pub(super) fn own_hub(
        &self,
        project: &ProjectCaches,
        name: &str,
        observed: &Observed<'_>,
    ) -> Result<HubIdentity, ReconcileError> {
        let upstream = observed.upstream;
        let deployment = owner(project, observed);
        let record = deployment.as_ref().and_then(|it| recorded_hub(it.meta()));
        let hub = self.hub.identity()?;
        let on_hub = self
            .hub
            .namespaces
            .get("", observed.hub_namespace.as_str())?;
        let problem = hub.contradiction(record, on_hub.as_deref());
        require_no_contradiction(problem, || format!("Instance {upstream}/{name}"))?;
        Ok(hub)
    }

    /// Confirms with the hub's API server that the Instance of a projection is gone. The Instance may exist although
    /// the cache does not have it yet.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the hub has the Instance, or if the cell has not written to this hub yet. Also the
    /// errors of [`read_from_hub`], and those of [`confirm_owner`] if the cache has no WorkloadDeployment.
    pub(super) async fn prove_gone(
        &self,
        project: &ProjectCaches,
        hub: &HubIdentity,
        name: &str,
        observed: &Observed<'_>,
    ) -> Result<(), ReconcileError> {
        let namespace = observed.hub_namespace.as_str();
        let not_yet = |missing: String| ReconcileError::NotYet {
            object: format!("Instance {namespace}/{name} of the hub"),
            missing,
        };
        let projection = observed.projection.map(|it| it.meta());
        if let Some(name) = projection.and_then(deployment_name)
            && owner(project, observed).is_none()
        {
            confirm_owner(project, observed.upstream, name, None).await?;
        }
        let missing = self.missing_evidence(project, hub, observed)?;
        if let Some(missing) = missing {
            return Err(not_yet(missing));
        }
        match read_from_hub::<Instance>(&self.hub.client, hub, namespace, name).await? {
            None => Ok(()),
            Some(_) => Err(not_yet("the watch to report it".to_owned())),
        }
    }

    fn missing_evidence(
        &self,
        project: &ProjectCaches,
        hub: &HubIdentity,
        observed: &Observed<'_>,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(projection) = observed.projection else {
            return Ok(None);
        };
        let namespace = observed.hub_namespace.as_str();
        let (copy, instances) = match deployment_name(projection.meta()) {
            Some(deployment) => (
                self.hub.deployments.get(namespace, deployment)?,
                self.hub.instances_of(namespace, deployment),
            ),
            None => (None, Vec::new()),
        };
        let deployment = owner(project, observed);
        let cells = &self.hub.cells;
        let cell = label(projection.as_ref(), labels::SOURCE_CLUSTER);
        let binding = copy.as_deref().and_then(|copy| cells.binding_of(copy));
        let evidence = Evidence {
            hub,
            projection,
            cell: cell.map_or(CellState::Reachable, |cell| cells.state(cell)),
            is_cell_known: cell.is_none_or(|cell| cells.knows(cell)),
            is_bound: cell
                .zip(binding.as_deref())
                .is_none_or(|(cell, binding)| reaches(binding, cluster_of(cell))),
            deployment: deployment.as_deref(),
            copy: copy.as_deref(),
            instances: &instances,
        };
        Ok(evidence.missing())
    }

    /// Checks that the hub in use is the hub of an Instance. Without a WorkloadDeployment, no WorkloadDeployment of the
    /// project may have recorded another hub.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if it may be another hub.
    pub(super) fn require_own_hub(
        &self,
        project: Option<&ProjectCaches>,
        namespace: &Namespace,
        instance: &Instance,
        deployment: Option<&WorkloadDeployment>,
    ) -> Result<(), ReconcileError> {
        let hub = self.hub.identity()?;
        let record = deployment.and_then(|it| recorded_hub(it.meta()));
        let of_project = || {
            let project = project.filter(|_| deployment.is_none())?;
            project.hub_contradiction(&hub)
        };
        let problem = hub.contradiction(record, Some(namespace));
        require_no_contradiction(problem.or_else(of_project), || describe(instance))
    }
}

/// Returns the WorkloadDeployment of the project to which the Instance or its projection refers.
fn owner(project: &ProjectCaches, observed: &Observed<'_>) -> Option<Arc<WorkloadDeployment>> {
    if let Some(deployment) = observed.deployment {
        return Some(Arc::clone(deployment));
    }
    let name = deployment_name(observed.projection?.meta())?;
    known_deployment(project, &observed.upstream.namespace, name)
}
