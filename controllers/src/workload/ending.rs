//! Ends a terminating Workload. Metadata are sufficient for this, so it need not be decodable.

use api::{Workload, WorkloadDeployment, finalizers, labels};
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};

use super::{WorkloadController, of};
use crate::objects::{describe, has_finalizer, is_terminating};
use crate::projects::ProjectCaches;
use crate::runtime::error::FirstError;
use crate::runtime::keys::ProjectKey;
use crate::runtime::write::{Collection, Object};
use crate::runtime::{ReconcileContext, ReconcileError};

/// A Workload with only its metadata.
type PartialWorkload = PartialObjectMeta<Workload>;

impl WorkloadController {
    /// Returns the metadata of a Workload from the cache, if it is terminating.
    pub(super) fn terminating(
        project: &ProjectCaches,
        key: &ProjectKey,
    ) -> Option<PartialWorkload> {
        let metadata = project.workloads.metadata_of(&key.namespace, &key.name)?;
        let workload: PartialWorkload = metadata.into_response_partial();
        is_terminating(&workload).then_some(workload)
    }

    /// Deletes the WorkloadDeployments of a terminating Workload that cannot be decoded, then removes its finalizer.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] until all WorkloadDeployments are gone, and the errors of the requests.
    pub(super) async fn end(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        workload: &PartialWorkload,
    ) -> Result<(), ReconcileError> {
        if !has_finalizer(workload, finalizers::WORKLOAD_CONTROLLER) {
            return Ok(());
        }
        project.require(&project.deployments)?;
        let namespace = workload.namespace().unwrap_or_default();
        let uid = workload.uid().unwrap_or_default();
        let of_workload = of(&workload.metadata, &uid);
        let (own, undecodable) = project.deployments_of.partitioned(&of_workload);
        let own = own.iter().map(|it| &it.metadata);
        let all = own.chain(undecodable.iter().map(|it| &it.metadata));
        let deployments = Collection::new(&project.client, &namespace, None);
        let mut errors = FirstError::default();
        for metadata in all.filter(|metadata| metadata.deletion_timestamp.is_none()) {
            if errors.must_wait() {
                break;
            }
            let deployment: PartialObjectMeta<WorkloadDeployment> =
                metadata.clone().into_response_partial();
            errors.note(self.writer.delete(context, &deployments, &deployment).await);
        }
        errors.result()?;
        let workloads = Collection::new(&project.client, &namespace, None);
        self.release(context, &deployments, &workloads, workload)
            .await
    }

    /// Removes the finalizer of a terminating Workload.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the API server has one of its WorkloadDeployments, and the errors of the requests.
    pub(super) async fn release<K: Object, D: Object>(
        &self,
        context: &ReconcileContext,
        deployments: &Collection<'_, D>,
        workloads: &Collection<'_, K>,
        workload: &K,
    ) -> Result<(), ReconcileError> {
        let uid = workload.uid().unwrap_or_default();
        if deployments.has_child(labels::WORKLOAD_UID, &uid).await? {
            return Err(ReconcileError::NotYet {
                object: describe(workload),
                missing: "its WorkloadDeployments to be gone".to_owned(),
            });
        }
        let finalizer = finalizers::WORKLOAD_CONTROLLER;
        self.writer
            .remove_finalizer(context, workloads, workload, finalizer)
            .await
    }
}
