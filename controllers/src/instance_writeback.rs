//! Copies an Instance to the hub (docs/concepts/flow.md).
//!
//! The hub is read but not watched, because a cell must not see the objects of other cells. No watch is needed, because
//! the source of every copy is in the cell.

mod copy_name;
mod leftovers;
mod outdated;
mod plan;
#[cfg(test)]
mod reconcile_tests;
mod release;
pub(crate) mod triggers;

use std::sync::Arc;

use api::{Instance, InstanceStatus, annotations, finalizers};
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use multicluster::queue::Limits;
use multicluster::{Metrics, Outcome};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::cell::CellCaches;
use crate::instance::plan::readiness;
use crate::objects::{Namespace, StringMap, controller_reference, deployment_name, is_terminating};
use crate::runtime::error::FirstError;
use crate::runtime::events::Events;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Stored, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use copy_name::NamedCopy;
use leftovers::LeftoverCopies;
use plan::{
    CopyReport, CopyTransition, HubObjects, Observed, PartialDeployment, Plan, plan,
    status_of_applied_copy, status_of_unkept_copy,
};

pub(crate) struct InstanceWriteback {
    cell: Arc<CellCaches>,
    writer: Writer,
    events: Events,
    /// Held while a name is removed from a record of outdated copies.
    recording: Mutex<()>,
}

impl Controller for InstanceWriteback {
    const NAME: &'static str = "instance-writeback";
    type Key = ObjectKey;
    /// The hub may be far away, so a reconciliation mostly waits. After a start, all Instances are compared with their
    /// copies, and later events wait in the queue until this is finished.
    const LIMITS: Limits = Limits {
        per_tenant: 16,
        ..Limits::DEFAULT
    };

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        if let Some(instance) = self.terminating(&key) {
            self.release(context, &key, &instance).await?;
            return Ok(Outcome::Settled);
        }
        let Some(instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
            self.delete_outdated(context, &key).await?;
            let leftovers = LeftoverCopies {
                cell: &self.cell,
                writer: &self.writer,
            };
            leftovers.delete(context, &key).await?;
            return Ok(Outcome::Gone);
        };
        let mut hub = self.observe_hub(&instance).await?;
        let instance = self.as_it_is_now(&key, instance)?;
        hub.copy = hub
            .copy
            .map(|copy| self.as_written(context, copy, &instance));
        let plan = plan(&self.observed(context, &instance, &hub));
        if plan.writes_metadata() {
            self.write_metadata(context, &instance, &hub, &plan).await?;
        }
        let written = self.write_copy(context, &instance, &hub, &plan).await;
        let is_copied = written.is_ok()
            && plan.refusal.is_none()
            && !plan.writes_metadata()
            && readiness(&instance, context.now()).is_none();
        // The write of the metadata triggers the next reconciliation, which reports.
        let reported = match plan.writes_metadata() {
            true => Ok(()),
            false => {
                let instance = Arc::clone(&instance);
                self.report(context, &key, instance, plan.refusal, &written)
                    .await
            }
        };
        let mut errors = FirstError::default();
        errors.note(written);
        errors.note(reported);
        if is_copied {
            errors.note(self.forget_outdated(context, &key, &instance).await);
        }
        errors.result()?;
        Ok(plan.look_again.map_or(Outcome::Settled, Outcome::Again))
    }
}

impl InstanceWriteback {
    pub(crate) fn new(cell: Arc<CellCaches>, metrics: &Metrics) -> Self {
        Self {
            writer: Writer::new(Self::NAME, metrics),
            events: Events::new(cell.client.clone(), Self::NAME),
            recording: Mutex::default(),
            cell,
        }
    }

    fn observed<'a>(
        &'a self,
        context: &ReconcileContext,
        instance: &'a Instance,
        hub: &'a HubObjects,
    ) -> Observed<'a> {
        Observed {
            cell: &self.cell.name,
            instance,
            hub,
            now: context.now(),
        }
    }

    /// Reads the objects on the hub that a copy depends on.
    async fn observe_hub(&self, instance: &Instance) -> Result<HubObjects, ReconcileError> {
        let name = instance.namespace().unwrap_or_default();
        let metadata = instance.meta();
        let copy = NamedCopy::of_instance(&self.cell.hub, &name, &self.cell.name, metadata);
        let namespaces = Collection::<Namespace>::of_plane(&self.cell.hub, None);
        let deployments = Collection::<PartialDeployment>::new(&self.cell.hub, &name, None);
        let deployment = async {
            match deployment_name(instance.meta()) {
                Some(deployment) => deployments.read(deployment).await,
                None => Ok(None),
            }
        };
        // The hub may be far away, so the requests run at the same time.
        let (copy, namespace, deployment) =
            tokio::try_join!(copy, namespaces.read(&name), deployment)?;
        Ok(HubObjects {
            namespace,
            deployment,
            copy_name: copy.name,
            copy: copy.copy,
            is_outdated: self.is_outdated(&ObjectKey::of(metadata)),
        })
    }

    /// Returns the newest Instance from the cache if the objects that were read from the hub still match it. The
    /// provider may have written to the Instance during the requests. Then the API server would refuse a write that is
    /// based on the older version. If the identity of the Instance changed, returns the older version. An event of the
    /// Instance then triggers the next reconciliation.
    fn as_it_is_now(
        &self,
        key: &ObjectKey,
        instance: Arc<Instance>,
    ) -> Result<Arc<Instance>, ReconcileError> {
        let now = self.cell.instances.get(&key.namespace, &key.name)?;
        let is_it = |now: &Arc<Instance>| {
            now.uid() == instance.uid()
                && now.labels() == instance.labels()
                && is_terminating(now.as_ref()) == is_terminating(instance.as_ref())
        };
        Ok(now.filter(is_it).unwrap_or(instance))
    }

    /// Returns the copy with the spec as it was written, without additions of the hub.
    fn as_written(
        &self,
        context: &ReconcileContext,
        mut copy: Instance,
        instance: &Instance,
    ) -> Instance {
        if self.writer.has_additions_to(context, &copy, &instance.spec) {
            copy.spec = instance.spec.clone();
        }
        copy
    }

    /// Adds the finalizer and the record of the name of the copy in one write.
    async fn write_metadata(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        hub: &HubObjects,
        plan: &Plan,
    ) -> Result<(), ReconcileError> {
        let (instances, finalizer) = (self.in_cell(instance), finalizers::INSTANCE_CONTROLLER);
        let record = || (annotations::COPY_NAME.to_owned(), hub.copy_name.clone());
        let record: StringMap = plan.record_name.then(record).into_iter().collect();
        self.writer
            .add_finalizer(context, &instances, instance, finalizer, &record)
            .await
            .map(drop)
    }

    /// Returns what the Instance shows after the writes to the hub. An error that is no refusal, such as a timeout,
    /// changes nothing.
    fn report_of_write(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        written: &Result<(), ReconcileError>,
    ) -> CopyReport {
        let refusal = match written {
            Ok(()) => return CopyReport::copied(instance, context.now()),
            Err(error) => error.lasting_refusal(),
        };
        let Some(refusal) = refusal else {
            return CopyReport::default();
        };
        let refusal = self.writer.shown_refusal(context, instance, "", refusal);
        CopyReport::refused_by_hub(instance, refusal, context.now())
    }

    /// Writes the condition `CopiedToHub` and publishes its event. `refusal` is the report if the hub does not allow
    /// the copy.
    async fn report(
        &self,
        context: &ReconcileContext,
        key: &ObjectKey,
        instance: Arc<Instance>,
        refusal: Option<CopyReport>,
        written: &Result<(), ReconcileError>,
    ) -> Result<(), ReconcileError> {
        // The provider may have written to the Instance during the writes to the hub.
        let instance = self.as_it_is_now(key, instance)?;
        let instance = instance.as_ref();
        let report = refusal.unwrap_or_else(|| self.report_of_write(context, instance, written));
        if let Some(conditions) = &report.conditions {
            let status = json!({"conditions": conditions});
            self.writer
                .patch_status(context, &self.in_cell(instance), instance, status)
                .await?;
        }
        match &report.transition {
            Some(CopyTransition::Copied) => {
                self.events
                    .publish(
                        instance,
                        EventType::Normal,
                        api::instance::COPIED_TO_HUB,
                        "copied to the hub",
                    )
                    .await;
            }
            Some(CopyTransition::NotCopied(refusal)) => {
                self.events
                    .publish(
                        instance,
                        EventType::Warning,
                        refusal.reason,
                        &refusal.message,
                    )
                    .await;
            }
            None => {}
        }
        Ok(())
    }

    async fn write_copy(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        hub: &HubObjects,
        plan: &Plan,
    ) -> Result<(), ReconcileError> {
        let copies = self.on_hub(instance);
        if let (Some(labels), Some(owner)) = (&plan.apply_copy, &hub.deployment) {
            let body = copy_body(&hub.copy_name, instance, owner, labels);
            let compare = |it: &Instance| Stored::compare(&it.spec, &instance.spec);
            let ensured = self
                .writer
                .ensure(
                    context,
                    &copies,
                    hub.copy.as_ref(),
                    &body,
                    &["/spec"],
                    compare,
                )
                .await;
            let copy = match ensured {
                Ok(copy) => self.as_written(context, copy, instance),
                Err(error @ ReconcileError::DoesNotStay { .. }) => {
                    // The hub does not store the whole spec. The status must still be current.
                    let status = status_of_unkept_copy(&self.observed(context, instance, hub));
                    self.write_copy_status(context, &copies, hub.copy.clone(), status)
                        .await?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            };
            // The status must be written now. The cell does not watch the hub, so no event of the copy would trigger
            // this write later.
            let hub = HubObjects {
                namespace: hub.namespace.clone(),
                deployment: hub.deployment.clone(),
                copy_name: hub.copy_name.clone(),
                copy: Some(copy),
                is_outdated: hub.is_outdated,
            };
            let status = status_of_applied_copy(&self.observed(context, instance, &hub));
            return self
                .write_copy_status(context, &copies, hub.copy, status)
                .await;
        }
        let status = plan.copy_status.clone();
        self.write_copy_status(context, &copies, hub.copy.clone(), status)
            .await
    }

    async fn write_copy_status(
        &self,
        context: &ReconcileContext,
        copies: &Collection<'_, Instance>,
        copy: Option<Instance>,
        status: Option<InstanceStatus>,
    ) -> Result<(), ReconcileError> {
        match copy.zip(status) {
            Some((copy, status)) => self
                .writer
                .apply_status(context, copies, &copy, json!(status))
                .await
                .map(drop),
            None => Ok(()),
        }
    }

    fn in_cell(&self, instance: &Instance) -> Collection<'_, Instance> {
        let namespace = instance.namespace().unwrap_or_default();
        Collection::new(&self.cell.client, &namespace, Some(&self.cell.instances))
    }

    fn on_hub(&self, instance: &Instance) -> Collection<'_, Instance> {
        Collection::new(
            &self.cell.hub,
            &instance.namespace().unwrap_or_default(),
            None,
        )
    }
}

/// Returns the copy of the cell's Instance. Its owner is the hub's WorkloadDeployment, so the hub's garbage collection
/// deletes the copy.
fn copy_body(
    name: &str,
    instance: &Instance,
    owner: &PartialDeployment,
    labels: &StringMap,
) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": name,
            "namespace": instance.namespace(),
            "labels": labels,
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": instance.spec,
    })
}
