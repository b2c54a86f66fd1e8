//! Brings copies up to date that were recorded as outdated (`outdated_copies.rs`).

use api::WorkloadDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};

use super::InstanceWriteback;
use super::copy_name::PartialInstance;
use crate::names::deployment_of_instance;
use crate::outdated_copies::record::{metadata, recorded};
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

type PartialDeployment = PartialObjectMeta<WorkloadDeployment>;

impl InstanceWriteback {
    /// Deletes the outdated copy of an Instance that the cell does not have, and removes it from the record.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the cell, and the errors of the requests.
    pub(super) async fn delete_outdated(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        let Some(deployment) = self.deployment_that_records(key) else {
            return Ok(());
        };
        let copies = Collection::<PartialInstance>::new(&self.cell.hub, &key.namespace, None);
        let instances = Collection::<PartialInstance>::new(&self.cell.client, &key.namespace, None);
        let named = ObjectMeta {
            name: Some(key.name.clone()),
            ..ObjectMeta::default()
        };
        let copy = self.copy_to_delete(&copies, key, &named).await?;
        if instances.read(&key.name).await?.is_some() {
            // The reconciliation of that Instance writes the copy.
            return Ok(());
        }
        if let Some(copy) = copy {
            self.writer
                .delete_unchanged(context, &copies, &copy)
                .await?;
        }
        self.forget(context, key, &deployment).await
    }

    /// Removes an Instance from the record, after its copy was written.
    ///
    /// # Errors
    ///
    /// The errors of the request.
    pub(super) async fn forget_outdated(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        match self.deployment_that_records(key) {
            Some(deployment) => self.forget(context, key, &deployment).await,
            None => Ok(()),
        }
    }

    /// Returns the WorkloadDeployment that has this Instance in its record. Metadata are sufficient for this.
    pub(super) fn deployment_that_records(
        &self,
        instance: &ObjectKey,
    ) -> Option<PartialDeployment> {
        let name = deployment_of_instance(&instance.name)?;
        let deployments = &self.cell.deployments;
        let metadata = deployments.metadata_of(&instance.namespace, name)?;
        let is_recorded = recorded(&metadata).contains(&instance.name);
        is_recorded.then(|| metadata.into_response_partial())
    }

    async fn forget(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        deployment: &PartialDeployment,
    ) -> Result<(), ReconcileError> {
        let mut names = recorded(deployment.meta());
        names.remove(&key.name);
        let deployments = Collection::new(&self.cell.client, &key.namespace, None);
        self.writer
            .patch_metadata(context, &deployments, deployment, metadata(&names))
            .await
            .map(drop)
    }
}
