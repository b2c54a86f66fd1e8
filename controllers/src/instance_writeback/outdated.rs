//! Lets an Instance be replaced while the hub does not answer, and brings its copy up to date later.
//!
//! A copy is outdated from the moment its Instance is released until the copy of the next Instance is written, or the
//! copy is deleted. The record of it is on the cell's WorkloadDeployment (`outdated_copies.rs`).

use api::WorkloadDeployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use multicluster::queue::{Failure, Outage};
use tracing::info;

use super::InstanceWriteback;
use super::copy_name::PartialInstance;
use super::plan::outdated::is_replaced;
use crate::names::deployment_of_instance;
use crate::objects::{controller_name, describe};
use crate::outdated_copies::{record, recorded};
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

type PartialDeployment = PartialObjectMeta<WorkloadDeployment>;

impl InstanceWriteback {
    /// Records that the copy of a terminating Instance is outdated, if the hub does not answer and another Instance
    /// replaces this one. Returns whether it is recorded. `error` is the failure of the deletion of the copy.
    ///
    /// # Errors
    ///
    /// The errors of the request.
    pub(super) async fn record_outdated(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: &PartialInstance,
        error: &ReconcileError,
    ) -> Result<bool, ReconcileError> {
        if error.outage() != Some(Outage::Unreachable) {
            return Ok(false);
        }
        let Some(name) = controller_name::<WorkloadDeployment>(instance.meta()) else {
            return Ok(false);
        };
        let deployment = self.cell.deployments.get(&key.namespace, name);
        // A WorkloadDeployment that cannot be decoded replaces nothing.
        let Some(deployment) = deployment.ok().flatten() else {
            return Ok(false);
        };
        if !is_replaced(&deployment, instance.meta(), context.now()) {
            return Ok(false);
        }
        let mut names = recorded(deployment.meta());
        if names.insert(key.name.clone()) {
            let cache = Some(&self.cell.deployments);
            let deployments = Collection::new(&self.cell.client, &key.namespace, cache);
            self.writer
                .patch_metadata(context, &deployments, deployment.as_ref(), record(&names))
                .await?;
        }
        let instance = describe(instance);
        info!(%error, instance, "the Instance is replaced, and its copy on the hub stays for now");
        Ok(true)
    }

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
    fn deployment_that_records(&self, instance: &ObjectKey) -> Option<PartialDeployment> {
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
            .patch_metadata(context, &deployments, deployment, record(&names))
            .await
            .map(drop)
    }
}
