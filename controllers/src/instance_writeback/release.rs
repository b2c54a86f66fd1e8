//! Deletes the copy of a terminating Instance, and removes the finalizer from the Instance.
//!
//! Metadata are sufficient for this. So an Instance or a copy that cannot be decoded does not block the deletion of its
//! WorkloadDeployment.

use api::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMetaExt;
use kube::{Resource, ResourceExt};

use super::InstanceWriteback;
use super::copy_name::{NamedCopy, PartialInstance, is_of_another};
use crate::objects::{has_finalizer, is_terminating};
use crate::runtime::hub_proof::require_hub_of_cell;
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

impl InstanceWriteback {
    /// Returns the newest metadata of an Instance from the cache, if the Instance is terminating.
    pub(super) fn terminating(&self, key: &ObjectKey) -> Option<PartialInstance> {
        let metadata = self.cell.instances.metadata_of(&key.namespace, &key.name)?;
        let instance: PartialInstance = metadata.into_response_partial();
        is_terminating(&instance).then_some(instance)
    }

    /// Deletes the copy of a terminating Instance and removes the finalizer.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the Instance, and the errors of the requests.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: &PartialInstance,
    ) -> Result<(), ReconcileError> {
        if !has_finalizer(instance, finalizers::INSTANCE_CONTROLLER) {
            // It was released while the hub did not answer, and may have other finalizers.
            return self.delete_outdated(context, key).await;
        }
        let copies = Collection::<PartialInstance>::new(&self.cell.hub, &key.namespace, None);
        if let Some(copy) = self.copy_to_delete(&copies, key, instance.meta()).await? {
            // Another cell may have adopted the copy since it was read.
            self.writer
                .delete_unchanged(context, &copies, &copy)
                .await?;
        }
        // The provider may have written to the Instance during the requests to the hub. The API server refuses a write
        // that is based on the older version.
        let newest = self.terminating(key);
        let newest = newest.filter(|newest| newest.uid() == instance.uid());
        let instances = Collection::new(&self.cell.client, &key.namespace, None);
        self.writer
            .remove_finalizer(
                context,
                &instances,
                newest.as_ref().unwrap_or(instance),
                finalizers::INSTANCE_CONTROLLER,
            )
            .await
    }

    /// Returns the copy of an Instance, if it must be deleted. `None` is a proof that the hub has no such copy.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the Instance, and the errors of the requests.
    pub(super) async fn copy_to_delete(
        &self,
        copies: &Collection<'_, PartialInstance>,
        key: &ObjectKey,
        instance: &ObjectMeta,
    ) -> Result<Option<PartialInstance>, ReconcileError> {
        let mut named = NamedCopy::read(copies, &self.cell.name, instance).await?;
        require_hub_of_cell(&self.cell, &key.namespace).await?;
        if named.copy.is_none() {
            // The address may have led to another hub before the hub was identified.
            named = NamedCopy::read(copies, &self.cell.name, instance).await?;
        }
        // A copy of the Go manager does not name its cell. It goes with the Instance, because nothing else deletes it
        // later. If another cell of the city has an Instance of this name, that cell writes its copy again.
        let may_delete =
            |copy: &PartialInstance| !is_terminating(copy) && !is_of_another(&self.cell.name, copy);
        Ok(named.copy.filter(may_delete))
    }
}
