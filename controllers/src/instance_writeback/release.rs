//! Deletes the copy of a terminating Instance, and removes the finalizer from the Instance.
//!
//! Metadata are sufficient for this. So an Instance or a copy that cannot be decoded does not block the deletion of its
//! WorkloadDeployment.

use std::time::Duration;

use api::finalizers;
use jiff::{SignedDuration, Timestamp};
use kube::core::PartialObjectMetaExt;
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use multicluster::queue::{Failure, Outage};
use tracing::{info, warn};

use super::InstanceWriteback;
use super::copy_name::{NamedCopy, PartialInstance, is_of_another};
use crate::objects::{controller_uid, deployment_name, has_finalizer, is_terminating};
use crate::runtime::hub_proof::require_hub_of_cell;
use crate::runtime::keys::ObjectKey;
use crate::runtime::write::Collection;
use crate::runtime::{ReconcileContext, ReconcileError};

/// How long a terminating Instance waits for a hub that does not answer. A short outage needs no log entry of a copy
/// that is left behind.
const LEFT_AFTER: SignedDuration = SignedDuration::from_secs(10);

impl InstanceWriteback {
    /// Returns the newest metadata of an Instance from the cache, if the Instance is terminating.
    pub(super) fn terminating(&self, key: &ObjectKey) -> Option<PartialInstance> {
        let metadata = self.cell.instances.metadata_of(&key.namespace, &key.name)?;
        let instance: PartialInstance = metadata.into_response_partial();
        is_terminating(&instance).then_some(instance)
    }

    /// Deletes the copy of a terminating Instance and removes the finalizer. If the hub does not answer, the Instance
    /// ends without it after [`LEFT_AFTER`], so that its replacement does not wait for the hub. The copy is not lost:
    /// the replacement has the same copy, and a copy without an Instance is deleted when the hub answers
    /// ([`super::leftovers`]). A restarted process finds such a copy by its WorkloadDeployment, so an Instance without
    /// a live WorkloadDeployment waits for the hub.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Contradiction`] if the hub is not the hub of the Instance, and the errors of the requests.
    pub(super) async fn release(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: &PartialInstance,
    ) -> Result<Outcome, ReconcileError> {
        let finalizer = finalizers::INSTANCE_CONTROLLER;
        if !has_finalizer(instance, finalizer) {
            return Ok(Outcome::Settled);
        }
        if let Err(error) = self.delete_copy(context, key).await {
            let is_away = error.outage() == Some(Outage::Unreachable);
            if !is_away || !self.has_live_deployment(key, instance) {
                return Err(error);
            }
            let wait = until_left(instance, context.now());
            if !wait.is_zero() {
                info!(?key, %error, "the copy on the hub is not deleted yet");
                return Ok(Outcome::Again(wait));
            }
            warn!(?key, %error, "the Instance ends before its copy on the hub");
        }
        // The provider may have written to the Instance during the requests to the hub. The API server refuses a write
        // that is based on the older version.
        let newest = self.terminating(key);
        let newest = newest.filter(|newest| newest.uid() == instance.uid());
        let instances = Collection::new(&self.cell.client, &key.namespace, None);
        let newest = newest.as_ref().unwrap_or(instance);
        self.writer
            .remove_finalizer(context, &instances, newest, finalizer)
            .await?;
        Ok(Outcome::Settled)
    }

    async fn delete_copy(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        let copies = Collection::<PartialInstance>::new(&self.cell.hub, &key.namespace, None);
        let mut named = NamedCopy::read(&copies, &self.cell.name, &key.name).await?;
        require_hub_of_cell(&self.cell, &key.namespace).await?;
        if named.copy.is_none() {
            // The address may have led to another hub before the hub was identified.
            named = NamedCopy::read(&copies, &self.cell.name, &key.name).await?;
        }
        // A copy of the Go manager does not name its cell. It goes with the Instance, because nothing else deletes it
        // later. If another cell of the city has an Instance of this name, that cell writes its copy again.
        let may_delete =
            |copy: &PartialInstance| !is_terminating(copy) && !is_of_another(&self.cell.name, copy);
        match named.copy.filter(may_delete) {
            // Another cell may have adopted the copy since it was read.
            Some(copy) => self.writer.delete_unchanged(context, &copies, &copy).await,
            None => Ok(()),
        }
    }

    /// Returns whether the cell has the WorkloadDeployment that controls the Instance, and is not deleting it.
    fn has_live_deployment(&self, key: &ObjectKey, instance: &PartialInstance) -> bool {
        let name = deployment_name(instance.meta());
        let found = name.and_then(|name| self.cell.deployments.metadata_of(&key.namespace, name));
        found.is_some_and(|deployment| {
            deployment.deletion_timestamp.is_none()
                && deployment.uid.as_deref() == controller_uid(instance)
        })
    }
}

/// Returns how long a terminating Instance still waits for the hub.
fn until_left(instance: &PartialInstance, now: Timestamp) -> Duration {
    let began = instance.metadata.deletion_timestamp.as_ref();
    let waited = began.map_or(SignedDuration::ZERO, |began| now.duration_since(began.0));
    let left = LEFT_AFTER.saturating_sub(waited);
    Duration::try_from(left).unwrap_or_default()
}
