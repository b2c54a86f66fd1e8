//! Deletes deployments of the hub that their project does not have.

use std::sync::Arc;

use api::{HubNamespace, WorkloadDeployment};
use kube::{Resource, ResourceExt};

use super::Federator;
use super::plan::orphan::{Suspect, is_orphan};
use crate::ReconcileError;
use crate::keys::ProjectKey;
use crate::namespace::{answered, is_derived};
use crate::objects::{Namespace, is_terminating, recorded_hub_namespace};
use crate::upstream::Upstream;
use crate::watched::Project;
use crate::write::Collection;

impl Federator {
    /// Deletes what the hub has under this name for the project's namespace and no deployment speaks for. That is found in
    /// caches, and proved by the project's API server itself.
    pub(super) async fn delete_orphans(
        &self,
        project: &Project,
        key: &ProjectKey,
        deployment: Option<&WorkloadDeployment>,
    ) -> Result<(), ReconcileError> {
        for (hub_namespace, copy) in self.suspects(key, deployment)? {
            if !self.is_proved(project, key, &hub_namespace).await? {
                continue;
            }
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
        Ok(())
    }

    /// The deployments of this name in hub namespaces for the project's namespace, but the one of this deployment.
    fn suspects(
        &self,
        key: &ProjectKey,
        deployment: Option<&WorkloadDeployment>,
    ) -> Result<Vec<(HubNamespace, Arc<WorkloadDeployment>)>, ReconcileError> {
        let own = deployment.and_then(|deployment| recorded_hub_namespace(deployment.meta()));
        let upstream = Upstream {
            project: key.project.clone(),
            namespace: key.namespace.clone(),
        };
        let mut suspects = Vec::new();
        for namespace in self.hub.namespaces_for.get(&upstream.to_string()) {
            let Ok(name) = HubNamespace::new(namespace.name_any()) else {
                continue;
            };
            if own == Some(name.as_str()) || !is_derived(&name) {
                continue;
            }
            let copy = self.hub.deployments.get(name.as_str(), &key.name)?;
            if let Some(copy) = copy.filter(|copy| !is_terminating(copy.as_ref())) {
                suspects.push((name, copy));
            }
        }
        Ok(suspects)
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
            hub_namespace,
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
