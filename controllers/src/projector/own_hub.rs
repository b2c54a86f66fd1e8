//! Checks that the hub in use is the hub of an Instance. Another hub may have old objects of the same names: they prove
//! nothing, and nothing is written to them (I-12).

use std::sync::Arc;

use api::{Instance, WorkloadDeployment};
use kube::Resource;

use super::Projector;
use super::plan::Observed;
use crate::hub::identity::{HubIdentity, recorded_hub};
use crate::objects::{Namespace, deployment_name, describe};
use crate::projects::ProjectCaches;
use crate::runtime::ReconcileError;
use crate::runtime::hub_proof::require_no_contradiction;

impl Projector {
    /// Returns the hub in use, if it is the hub that the WorkloadDeployment of the projection has recorded. Another hub
    /// may have an old Instance of the same name, and proves nothing about the projection.
    pub(super) fn own_hub(
        &self,
        project: &ProjectCaches,
        name: &str,
        observed: &Observed<'_>,
    ) -> Result<HubIdentity, ReconcileError> {
        let Observed {
            upstream,
            projection,
            ..
        } = *observed;
        let of_projection = projection.and_then(|it| deployment_name(it.meta()));
        let deployment = match (observed.deployment, of_projection) {
            (Some(deployment), _) => Some(Arc::clone(deployment)),
            (None, Some(name)) => project.deployments.get(&upstream.namespace, name)?,
            (None, None) => None,
        };
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
