//! Brings copies up to date that were recorded as outdated (`outdated_copies.rs`).

use api::{Instance, WorkloadDeployment, finalizers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};

use super::InstanceWriteback;
use super::copy_name::PartialInstance;
use crate::names::deployment_of_instance;
use crate::objects::{has_finalizer, is_terminating};
use crate::outdated_copies::record::{metadata, recorded};
use crate::runtime::hub_proof::require_hub_of_cell;
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::{Collection, Object};
use crate::runtime::{ReconcileContext, ReconcileError};

type PartialDeployment = PartialObjectMeta<WorkloadDeployment>;

impl InstanceWriteback {
    /// Deletes the outdated copy of an Instance that the cell no longer has, or that was released, and removes it from
    /// the record.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the cell, and the errors of the requests.
    pub(super) async fn delete_outdated(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        if self.deployment_that_records(key).is_none() {
            return Ok(());
        }
        let copies = Collection::<PartialInstance>::new(&self.cell.hub, &key.namespace, None);
        let instances = Collection::<PartialInstance>::new(&self.cell.client, &key.namespace, None);
        let named = ObjectMeta {
            name: Some(key.name.clone()),
            ..ObjectMeta::default()
        };
        let copy = self.copy_to_delete(&copies, key, &named).await?;
        let needs_copy = |it: PartialInstance| {
            !is_terminating(&it) || has_finalizer(&it, finalizers::INSTANCE_CONTROLLER)
        };
        if instances.read(&key.name).await?.is_some_and(needs_copy) {
            // The reconciliation of that Instance writes or deletes the copy.
            return Ok(());
        }
        if let Some(copy) = copy {
            self.writer
                .delete_unchanged(context, &copies, &copy)
                .await?;
        }
        let _recording = self.recording.lock().await;
        self.remove_name(context, key).await
    }

    /// Removes an Instance from the record, after its copy was written.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the cell, and the errors of the requests.
    pub(super) async fn forget_outdated(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: &Instance,
    ) -> Result<(), ReconcileError> {
        if !self.is_outdated(key) {
            return Ok(());
        }
        // A copy on another hub says nothing of the outdated one.
        require_hub_of_cell(&self.cell, &key.namespace).await?;
        let _recording = self.recording.lock().await;
        let now = self.cell.instances.metadata_of(&key.namespace, &key.name);
        let is_same =
            |now: ObjectMeta| now.uid == instance.metadata.uid && now.deletion_timestamp.is_none();
        // Another one may have been recorded during the writes to the hub.
        match now.is_some_and(is_same) {
            true => self.remove_name(context, key).await,
            false => Ok(()),
        }
    }

    /// Removes an Instance from the record of its WorkloadDeployment. Many copies can become current at once when the hub
    /// answers again, so the caller holds `recording`.
    async fn remove_name(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        let Some(deployment) = self.deployment_that_records(key) else {
            return Ok(());
        };
        let (namespace, client) = (&key.namespace, &self.cell.client);
        let decoded = self.cell.deployments.get(namespace, &deployment.name_any());
        if let Ok(Some(deployment)) = decoded {
            // The cache has the new record at once, so the next name is removed from it.
            let deployments = Collection::new(client, namespace, Some(&self.cell.deployments));
            return self
                .write_without(context, &deployments, deployment.as_ref(), &key.name)
                .await;
        }
        let deployments = Collection::new(client, namespace, None);
        self.write_without(context, &deployments, &deployment, &key.name)
            .await
    }

    async fn write_without<K: Object>(
        &self,
        context: &ReconcileContext,
        deployments: &Collection<'_, K>,
        deployment: &K,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let mut names = recorded(deployment.meta());
        names.remove(name);
        self.writer
            .patch_metadata(context, deployments, deployment, metadata(&names))
            .await
            .map(drop)
    }

    /// Returns whether the copy of this Instance is recorded as outdated.
    pub(super) fn is_outdated(&self, instance: &ObjectKey) -> bool {
        self.deployment_that_records(instance).is_some()
    }

    /// Returns the WorkloadDeployment that has this Instance in its record. Metadata are sufficient for this.
    fn deployment_that_records(&self, instance: &ObjectKey) -> Option<PartialDeployment> {
        let name = deployment_of_instance(&instance.name)?;
        let deployments = &self.cell.deployments;
        let metadata = deployments.metadata_of(&instance.namespace, name)?;
        let is_recorded = recorded(&metadata).contains(&instance.name);
        is_recorded.then(|| metadata.into_response_partial())
    }
}
