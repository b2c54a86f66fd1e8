//! Ends a terminating WorkloadDeployment. Metadata are sufficient for this, so it need not be decodable.

use api::{Instance, WorkloadDeployment, finalizers, labels};
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};

use super::DeploymentController;
use crate::objects::{controller_uid_of, describe, has_finalizer, is_terminating};
use crate::outdated_copies::record::recorded;
use crate::runtime::error::FirstError;
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::{Collection, Object};
use crate::runtime::{ReconcileContext, ReconcileError};

/// A WorkloadDeployment with only its metadata.
type PartialDeployment = PartialObjectMeta<WorkloadDeployment>;

impl DeploymentController {
    /// Returns the metadata of a WorkloadDeployment from the cache, if it is terminating.
    pub(super) fn terminating(&self, key: &ObjectKey) -> Option<PartialDeployment> {
        let deployments = &self.cell.deployments;
        let metadata = deployments.metadata_of(&key.namespace, &key.name)?;
        let deployment: PartialDeployment = metadata.into_response_partial();
        is_terminating(&deployment).then_some(deployment)
    }

    /// Deletes the Instances of a terminating WorkloadDeployment that cannot be decoded, then removes its finalizer.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] until all Instances are gone, and the errors of the requests.
    pub(super) async fn end(
        &self,
        context: &ReconcileContext,
        deployment: &PartialDeployment,
    ) -> Result<(), ReconcileError> {
        if !has_finalizer(deployment, finalizers::WORKLOAD_CONTROLLER) {
            return Ok(());
        }
        let cell = &self.cell;
        let namespace = deployment.namespace().unwrap_or_default();
        let uid = deployment.uid().unwrap_or_default();
        let instances = Collection::new(&cell.client, &namespace, None);
        let mut errors = FirstError::default();
        for metadata in cell.instances.metadata(&namespace) {
            if errors.must_wait() {
                break;
            }
            if controller_uid_of(&metadata) == Some(uid.as_str())
                && metadata.deletion_timestamp.is_none()
            {
                let instance: PartialObjectMeta<Instance> = metadata.into_response_partial();
                errors.note(self.writer.delete(context, &instances, &instance).await);
            }
        }
        errors.result()?;
        let deployments = Collection::new(&cell.client, &namespace, None);
        self.release(context, &deployments, deployment).await
    }

    /// Removes the finalizer of a terminating WorkloadDeployment.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the API server has one of its Instances, or the hub may have the copy of an Instance
    /// that is gone, and the errors of the requests.
    pub(super) async fn release<K: Object>(
        &self,
        context: &ReconcileContext,
        deployments: &Collection<'_, K>,
        deployment: &K,
    ) -> Result<(), ReconcileError> {
        let namespace = deployment.namespace().unwrap_or_default();
        let instances = Collection::<Instance>::new(&self.cell.client, &namespace, None);
        let uid = deployment.uid().unwrap_or_default();
        let label = labels::WORKLOAD_DEPLOYMENT_UID;
        if instances.has_child(label, &uid).await? {
            return Err(ReconcileError::NotYet {
                object: describe(deployment),
                missing: "its Instances to be gone".to_owned(),
            });
        }
        if !recorded(deployment.meta()).is_empty() {
            return Err(ReconcileError::NotYet {
                object: describe(deployment),
                missing: "the hub to have no copies of its former Instances".to_owned(),
            });
        }
        let finalizer = finalizers::WORKLOAD_CONTROLLER;
        self.writer
            .remove_finalizer(context, deployments, deployment, finalizer)
            .await
    }
}
