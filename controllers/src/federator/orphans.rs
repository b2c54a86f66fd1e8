//! Deletes WorkloadDeployments on the hub that their project does not have (docs/concepts/ownership.md).

use std::sync::Arc;

use api::{DEFAULT_NAMESPACE, HubNamespace, WorkloadDeployment};
use kube::ResourceExt;

use super::plan::orphan::{Suspect, is_orphan};
use crate::hub::HubCaches;
use crate::hub::upstream::Upstream;
use crate::hub::upstream_namespace::{Identity, may_be_of};
use crate::objects::{Namespace, is_terminating};
use crate::projects::ProjectCaches;
use crate::runtime::hub_proof::require_own_hub;
use crate::runtime::keys::ProjectKey;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};

/// Deletes WorkloadDeployments of the hub that their project does not have.
pub(super) struct OrphanSweeper<'a> {
    pub(super) hub: &'a HubCaches,
    pub(super) project: &'a ProjectCaches,
    pub(super) writer: &'a Writer,
}

impl OrphanSweeper<'_> {
    /// Deletes the copies of this name that have no WorkloadDeployment in the project. Looks in all hub namespaces
    /// whose labels identify the namespace of the key, except `own`. The WorkloadDeployment of this name uses `own`.
    /// Caches find the candidates. The project's API server must prove that a candidate is an orphan. The hub in use
    /// must be the hub of the project.
    pub(super) async fn sweep(
        &self,
        context: &ReconcileContext,
        key: &ProjectKey,
        own: Option<&HubNamespace>,
    ) -> Result<(), ReconcileError> {
        let upstream = Upstream {
            project: key.project.clone(),
            namespace: key.namespace.clone(),
        };
        for on_hub in self.hub.namespaces_for.get(&upstream.to_string()) {
            let hub_namespace = HubNamespace::new(on_hub.name_any());
            let hub_namespace = hub_namespace.ok().filter(|it| Some(it) != own);
            // Such a name contains no UID, so nothing can be proved about this hub namespace.
            let Some(hub_namespace) = hub_namespace.filter(HubNamespace::is_of_project_namespace)
            else {
                continue;
            };
            let copies = &self.hub.deployments;
            let copy = copies.get(hub_namespace.as_str(), &key.name)?;
            let Some(copy) = copy.filter(|copy| !is_terminating(copy.as_ref())) else {
                continue;
            };
            // If no response could be proof, the requests are skipped.
            if may_be_of(self.project, &key.namespace, &hub_namespace, &on_hub) {
                self.delete_if_orphan(context, key, &hub_namespace, &on_hub, &copy)
                    .await?;
            }
        }
        Ok(())
    }

    async fn delete_if_orphan(
        &self,
        context: &ReconcileContext,
        key: &ProjectKey,
        hub_namespace: &HubNamespace,
        on_hub: &Namespace,
        copy: &Arc<WorkloadDeployment>,
    ) -> Result<(), ReconcileError> {
        self.project.require(&self.project.deployments)?;
        require_own_hub(self.hub, on_hub, Some(self.project))?;
        let namespaces = Collection::<Namespace>::of_plane(&self.project.client, None);
        let deployments =
            Collection::<WorkloadDeployment>::new(&self.project.client, &key.namespace, None);
        let proves = |deployment: Option<_>, namespace: Option<_>, default: Option<_>| {
            is_orphan(&Suspect {
                hub_namespace,
                on_hub,
                identity: Identity {
                    namespace: namespace.as_ref(),
                    default: default.as_ref(),
                },
                deployment: deployment.as_ref(),
            })
        };
        // If two API servers at one address answer in turn, the answers of one round can come from both. The second
        // round asks in the opposite order, so it gets the answers of the other server.
        let deployment = deployments.read(&key.name).await?;
        let namespace = namespaces.read(&key.namespace).await?;
        let default = namespaces.read(DEFAULT_NAMESPACE).await?;
        if !proves(deployment, namespace, default) {
            return Ok(());
        }
        let default = namespaces.read(DEFAULT_NAMESPACE).await?;
        let namespace = namespaces.read(&key.namespace).await?;
        let deployment = deployments.read(&key.name).await?;
        if !proves(deployment, namespace, default) {
            return Ok(());
        }
        let is_watched = self.project.namespaces.sync_state().borrow().is_current()
            && self.project.deployments.sync_state().borrow().is_current();
        if !is_watched {
            return Err(ReconcileError::NotYet {
                object: format!("WorkloadDeployment {hub_namespace}/{} of the hub", key.name),
                missing: "the watches of the project to work again".to_owned(),
            });
        }
        tracing::warn!(
            namespace = %hub_namespace, name = key.name, project = %key.project, upstream = key.namespace,
            "deleting a WorkloadDeployment of the hub that its project does not have"
        );
        let (client, cache) = (&self.hub.client, &self.hub.deployments);
        let copies = Collection::new(client, hub_namespace.as_str(), Some(cache));
        self.writer
            .delete_unchanged(context, &copies, copy.as_ref())
            .await
    }
}
