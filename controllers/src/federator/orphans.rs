//! Deletes deployments of the hub that their project does not have.

use api::{HubNamespace, WorkloadDeployment};
use kube::ResourceExt;
use planes::Outcome;

use super::Federator;
use super::plan::orphan::{Suspect, is_orphan};
use crate::ReconcileError;
use crate::keys::ProjectKey;
use crate::namespace::answered;
use crate::objects::{Namespace, is_terminating};
use crate::watched::Project;
use crate::write::Collection;

impl Federator {
    /// Deletes what the hub has under a name of which the project has no deployment. That is found in caches, and proved by
    /// the project's API server itself.
    pub(super) async fn delete_orphan(
        &self,
        project: &Project,
        key: &ProjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let namespace = project.namespaces.get("", &key.namespace)?;
        let uid = namespace.and_then(|namespace| namespace.uid());
        let hub_namespace = uid.and_then(|uid| HubNamespace::of_project_namespace(&uid).ok());
        let Some(hub_namespace) = hub_namespace else {
            return Ok(Outcome::Gone);
        };
        let copy = self
            .hub
            .deployments
            .get(hub_namespace.as_str(), &key.name)?;
        let Some(copy) = copy.filter(|copy| !is_terminating(copy.as_ref())) else {
            return Ok(Outcome::Gone);
        };
        if self.is_proved(project, key, &hub_namespace).await? {
            tracing::warn!(
                namespace = %hub_namespace, name = key.name, project = %key.project, upstream = key.namespace,
                "the project does not have this WorkloadDeployment of the hub: it is deleted"
            );
            let copies = Collection::new(
                &self.hub.client,
                hub_namespace.as_str(),
                Some(&self.hub.deployments),
            );
            self.writer.delete_unchanged(&copies, copy.as_ref()).await?;
        }
        Ok(Outcome::Gone)
    }

    async fn is_proved(
        &self,
        project: &Project,
        key: &ProjectKey,
        hub_namespace: &HubNamespace,
    ) -> Result<bool, ReconcileError> {
        let namespaces = Collection::<Namespace>::of_plane(&project.client, None);
        let namespace = namespaces.read(&key.namespace).await?;
        let deployments =
            Collection::<WorkloadDeployment>::new(&project.client, &key.namespace, None);
        let deployment = deployments.read(&key.name).await?;
        let is_orphan = is_orphan(&Suspect {
            upstream: answered(hub_namespace, namespace.as_ref()),
            deployment: deployment.as_ref(),
        });
        let is_watched = project.namespaces.freshness().borrow().is_current()
            && project.deployments.freshness().borrow().is_current();
        if is_orphan && !is_watched {
            return Err(ReconcileError::NotYet {
                object: format!("WorkloadDeployment {hub_namespace}/{} of the hub", key.name),
                missing: "the project to be watched again".to_owned(),
            });
        }
        Ok(is_orphan)
    }
}
