//! Lets an Instance be replaced while the hub does not answer
//! (docs/concepts/failures.md#the-hub-does-not-answer-while-an-instance-is-replaced).
//!
//! The copy of a deleted Instance is deleted by the write-back, which waits for the hub. If the hub does not answer, this
//! controller records the copy as outdated on the cell's WorkloadDeployment, and then releases the Instance. The
//! write-back removes the name from the record when the hub has the copy of the next Instance of this name, or no copy.
//! The finalizer of the WorkloadDeployment stays until the record is empty.
//!
//! The queue of this controller must not wait for the hub, so the hub is asked apart from it.

mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod record;
pub(crate) mod triggers;

use std::sync::Arc;
use std::time::Duration;

use api::{DEFAULT_NAMESPACE, Instance, WorkloadDeployment, finalizers};
use kube::Resource;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use multicluster::queue::{Failure, Outage};
use multicluster::{Metrics, Outcome};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::info;

use crate::cell::CellCaches;
use crate::cell::rules::with_rules;
use crate::objects::{Namespace, controller_name, describe};
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{PATIENCE, Step, step, waits};

/// How long an answer of the hub counts, or its absence.
const CURRENT: Duration = Duration::from_secs(5);

type PartialInstance = PartialObjectMeta<Instance>;

pub(crate) struct OutdatedCopies {
    cell: Arc<CellCaches>,
    writer: Writer,
    /// Whether the hub answered last, and when. Many Instances can ask at once.
    hub: Mutex<Option<(Instant, bool)>>,
    /// Held while a record is written: many Instances of one WorkloadDeployment can be replaced at once.
    recording: Mutex<()>,
}

impl Controller for OutdatedCopies {
    const NAME: &'static str = "outdated-copies";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let Some(instance) = self.waiting(&key) else {
            return Ok(Outcome::Gone);
        };
        let deployment = self.deployment_of(&instance);
        match step(deployment.as_deref(), instance.meta(), context.now()) {
            // A change of its WorkloadDeployment can make it wanted again.
            Step::Leave => Ok(Outcome::Again(PATIENCE)),
            Step::Wait(time) => Ok(Outcome::Again(time)),
            Step::Release if self.hub_answers().await => Ok(Outcome::Again(PATIENCE)),
            Step::Release => {
                self.record(context, &key, &instance).await?;
                self.release(context, &key).await?;
                let instance = describe(&instance);
                info!(
                    instance,
                    "the hub does not answer: the Instance is replaced, and its copy stays for now"
                );
                Ok(Outcome::Settled)
            }
        }
    }
}

impl OutdatedCopies {
    pub(crate) fn new(cell: Arc<CellCaches>, metrics: &Metrics) -> Self {
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            hub: Mutex::default(),
            recording: Mutex::default(),
        }
    }

    /// Returns the newest metadata of an Instance from the cache, if the Instance waits for the write-back.
    fn waiting(&self, key: &ObjectKey) -> Option<PartialInstance> {
        let metadata = self.cell.instances.metadata_of(&key.namespace, &key.name)?;
        waits(&metadata).then(|| metadata.into_response_partial())
    }

    /// Returns the WorkloadDeployment of an Instance. One that cannot be decoded replaces nothing.
    fn deployment_of(&self, instance: &PartialInstance) -> Option<Arc<WorkloadDeployment>> {
        let name = controller_name::<WorkloadDeployment>(instance.meta())?;
        let namespace = instance.metadata.namespace.as_deref()?;
        let deployment = self.cell.deployments.get(namespace, name).ok().flatten();
        deployment.map(with_rules)
    }

    /// Asks the hub for an object that every hub has. A refusal is an answer.
    async fn hub_answers(&self) -> bool {
        let mut last = self.hub.lock().await;
        if let Some((at, answers)) = *last
            && at.elapsed() < CURRENT
        {
            return answers;
        }
        let namespaces = Collection::<Namespace>::of_plane(&self.cell.hub, None);
        let failure = namespaces.read(DEFAULT_NAMESPACE).await.err();
        let outage = failure.and_then(|error| error.outage());
        let answers = outage != Some(Outage::Unreachable);
        *last = Some((Instant::now(), answers));
        answers
    }

    /// Adds the Instance to the record of its WorkloadDeployment. The API server refuses the write if the cache is
    /// behind, also if nothing is added.
    async fn record(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: &PartialInstance,
    ) -> Result<(), ReconcileError> {
        let _recording = self.recording.lock().await;
        // Another Instance may have been recorded meanwhile.
        let Some(deployment) = self.deployment_of(instance) else {
            return Err(ReconcileError::NotYet {
                object: describe(instance),
                missing: "its WorkloadDeployment".to_owned(),
            });
        };
        let mut names = record::recorded(deployment.meta());
        names.insert(key.name.clone());
        let cache = Some(&self.cell.deployments);
        let deployments = Collection::new(&self.cell.client, &key.namespace, cache);
        let metadata = record::metadata(&names);
        self.writer
            .patch_metadata(context, &deployments, deployment.as_ref(), metadata)
            .await
            .map(drop)
    }

    /// Removes the finalizer of the write-back.
    async fn release(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
    ) -> Result<(), ReconcileError> {
        // The provider may have written to the Instance during the requests.
        let Some(instance) = self.waiting(key) else {
            return Ok(());
        };
        let instances = Collection::new(&self.cell.client, &key.namespace, None);
        let finalizer = finalizers::INSTANCE_CONTROLLER;
        self.writer
            .remove_finalizer(context, &instances, &instance, finalizer)
            .await
    }
}
