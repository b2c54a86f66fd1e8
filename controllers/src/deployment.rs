//! Creates and replaces the Instances of a WorkloadDeployment in a cell (docs/concepts/flow.md#rollout).

mod absent;
mod ending;
mod plan;
#[cfg(test)]
mod reconcile_tests;
mod suspension;
pub(crate) mod triggers;
mod view;

use std::mem;
use std::sync::Arc;

use api::annotations::REFERENCED_DATA_VERSIONS;
use api::instance::InstanceControllerSpec;
use api::reasons::quota_granted::QUOTA_EXCEEDED;
use api::references::references;
use api::{Instance, InstanceSpec, WorkloadDeployment, finalizers};
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use multicluster::Outcome;
use serde_json::{Value, json};

use crate::cell::CellCaches;
use crate::cell::rules::with_rules;
use crate::cell_companions::CellCompanions;
use crate::gate::{self, Gate};
use crate::lifecycle::Lifecycle;
use crate::objects::{StringMap, controller_reference, covers, describe, is_terminating};
use crate::quota::{Held, ReplacementQuota};
use crate::runtime::error::FirstError;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use crate::template::template_hash;
pub(crate) use absent::AbsentInstances;
use plan::{
    DataVersions, Plan, RolloutStep, data_record, instance_name, linking_labels, ordinal,
    status_after_refusal,
};
use view::{QuotaAnswers, View};

pub(crate) struct DeploymentController {
    pub(crate) cell: Arc<CellCaches>,
    pub(crate) writer: Writer,
    /// The gates of new Instances.
    pub(crate) gates: Vec<Gate>,
    /// The quota that a replaced Instance needs.
    pub(crate) quota: ReplacementQuota,
    /// The companions in the cell.
    pub(crate) companions: CellCompanions,
    pub(crate) absent: AbsentInstances,
    pub(crate) lifecycle: Lifecycle,
}

impl Controller for DeploymentController {
    const NAME: &'static str = "deployment";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let deployment = match self.cell.deployments.get(&key.namespace, &key.name) {
            Ok(Some(deployment)) => with_rules(deployment),
            Ok(None) => {
                self.absent.forget(&key);
                return Ok(Outcome::Gone);
            }
            Err(undecodable) => {
                let Some(deployment) = self.terminating(&key) else {
                    return Err(undecodable.into());
                };
                self.end(context, &deployment).await?;
                return Ok(Outcome::Settled);
            }
        };
        // An Instance that changes between these reads may be in both lists or in none of them. Its event triggers the
        // next reconciliation. The API server refuses a write that is based on such a view: a create because the name
        // exists, a delete because the UID differs.
        let view = View {
            autoscaler: self.cell.autoscaler_of(&deployment),
            deployment,
            instances: self.cell.instances.readable(&key.namespace),
            undecodable: self.cell.instances.undecodable(&key.namespace),
            quota: QuotaAnswers::default(),
            data: self
                .gates
                .contains(&gate::REFERENCED_DATA)
                .then(DataVersions::new),
            now: context.now(),
        };
        self.execute(context, view).await
    }
}

impl DeploymentController {
    async fn execute(
        &self,
        context: &ReconcileContext,
        mut view: View,
    ) -> Result<Outcome, ReconcileError> {
        let namespace = view.deployment.namespace().unwrap_or_default();
        let cell = &self.cell;
        let deployments = Collection::new(&cell.client, &namespace, Some(&cell.deployments));
        let instances = Collection::new(&cell.client, &namespace, Some(&cell.instances));
        let mut errors = FirstError::default();
        let looked = self.look_for_data(context, &mut view).await;
        let confirmed = self
            .confirm(context, &mut view, &deployments, &instances)
            .await;
        let is_confirmed = errors.note(confirmed).is_some();
        let mut plan = view.plan();
        if !view.unasked().is_empty() {
            // It is not known what the status must say about these Instances.
            plan.status = None;
        }
        let deployment = view.deployment.as_ref();
        let finalizer = finalizers::WORKLOAD_CONTROLLER;
        if plan.add_finalizer {
            self.writer
                .add_finalizer(
                    context,
                    &deployments,
                    deployment,
                    finalizer,
                    &StringMap::new(),
                )
                .await?;
        }
        let marks = self
            .suspend_or_resume(context, &instances, deployment, &plan.suspend, &mut errors)
            .await;
        self.record_data(context, &instances, deployment, &plan.record, &mut errors)
            .await;
        for instance in &plan.refresh {
            if errors.must_wait() {
                break;
            }
            let Some(ordinal) = ordinal(deployment, instance) else {
                continue;
            };
            let existing = Some(instance.as_ref());
            errors.note(
                self.ensure(context, &instances, deployment, existing, ordinal)
                    .await,
            );
        }
        let taken = match plan.steps.first() {
            _ if !is_confirmed || marks.is_changed || errors.must_wait() => None,
            Some(RolloutStep::Create(ordinal)) => errors.note(
                self.ensure(context, &instances, deployment, None, *ordinal)
                    .await,
            ),
            Some(RolloutStep::Replace(instance) | RolloutStep::Delete(instance)) => {
                errors.note(self.delete(context, &instances, instance).await)
            }
            Some(RolloutStep::Wait(_)) | None => None,
        };
        if taken.is_some() || marks.is_changed {
            // An Instance has changed. The event of this change triggers the next reconciliation, and only the
            // status that includes the change is written.
            plan.status = None;
        }
        if is_confirmed {
            self.delete_own(context, &instances, &plan, &mut errors)
                .await;
        }
        // A suspension that fails is shown, whatever else fails.
        let refusal = marks.refusal.clone().or_else(|| {
            let refusal = errors.lasting_refusal()?;
            let shown = self.writer.shown_refusal(context, deployment, "", refusal);
            Some(shown)
        });
        if let Some(refusal) = &refusal {
            plan.status = status_after_refusal(&view.observed(), refusal);
        }
        if let Some(status) = &plan.status {
            let written = self
                .writer
                .apply_status(context, &deployments, deployment, json!(status))
                .await;
            // The customer deletes it, and has not scaled it.
            if let Some(written) = errors.note(written).flatten()
                && !deployment.is_ending()
            {
                self.lifecycle
                    .deployment_written(deployment, &written, marks.refusal.as_deref());
            }
        }
        errors.result()?;
        let deletes = |step: &RolloutStep| matches!(step, RolloutStep::Delete(_));
        let ends = is_terminating(deployment) || deployment.is_ending();
        if !plan.steps.iter().any(deletes) && !ends {
            self.absent.report(&view);
        }
        if plan.remove_finalizer {
            self.release(context, &deployments, deployment).await?;
        }
        looked?;
        Ok(view.outcome())
    }

    /// Deletes an Instance that is not terminating.
    async fn delete(
        &self,
        context: &ReconcileContext,
        instances: &Collection<'_, Instance>,
        instance: &Instance,
    ) -> Result<(), ReconcileError> {
        self.writer.delete(context, instances, instance).await?;
        self.lifecycle.instance_deleted(instance);
        Ok(())
    }

    /// Deletes the Instances of a WorkloadDeployment that ends.
    async fn delete_own(
        &self,
        context: &ReconcileContext,
        instances: &Collection<'_, Instance>,
        plan: &Plan,
        errors: &mut FirstError,
    ) {
        for instance in &plan.delete {
            if errors.must_wait() {
                break;
            }
            errors.note(self.delete(context, instances, instance).await);
        }
        for metadata in &plan.delete_undecodable {
            if errors.must_wait() {
                break;
            }
            // A delete needs only the metadata.
            let instance: PartialObjectMeta<Instance> = metadata.clone().into_response_partial();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let undecoded = Collection::new(&self.cell.client, namespace, None);
            errors.note(self.writer.delete(context, &undecoded, &instance).await);
        }
    }

    /// Writes to these Instances which versions of their data they are made for.
    async fn record_data(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, Instance>,
        deployment: &WorkloadDeployment,
        instances: &[Arc<Instance>],
        errors: &mut FirstError,
    ) {
        let record = json!({REFERENCED_DATA_VERSIONS: data_record(deployment)});
        for instance in instances {
            if errors.must_wait() {
                break;
            }
            let metadata = json!({"annotations": record});
            let patched = self
                .writer
                .patch_metadata(context, to, instance.as_ref(), metadata)
                .await;
            errors.note(patched);
        }
    }

    /// Looks which ConfigMaps and Secrets of the template the cell has, if an Instance has to be replaced for one of them.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::NotYet`] if the cell lacks one of them, and the errors of [`CellCompanions::look`].
    async fn look_for_data(
        &self,
        context: &ReconcileContext,
        view: &mut View,
    ) -> Result<(), ReconcileError> {
        let needed = view.data_to_roll();
        let Some(data) = &mut view.data else {
            return Ok(());
        };
        let namespace = view.deployment.namespace().unwrap_or_default();
        let mut lacking = Vec::new();
        for (source, least) in needed {
            let (client, now) = (&self.cell.client, context.now());
            let there = self.companions.look(client, &namespace, &source, now);
            match there.await? {
                Some(there) if there.is_at_least(&least) => {
                    data.insert(source, there);
                }
                _ => lacking.push(source.to_string()),
            }
        }
        if lacking.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::NotYet {
            object: describe(view.deployment.as_ref()),
            missing: format!("the cell to have the present {}", lacking.join(", ")),
        })
    }

    /// Asks for the quota that replacements need, and then confirms a deletion that is the next step. The deletion
    /// follows at once.
    async fn confirm(
        &self,
        context: &ReconcileContext,
        view: &mut View,
        deployments: &Collection<'_, WorkloadDeployment>,
        instances: &Collection<'_, Instance>,
    ) -> Result<(), ReconcileError> {
        loop {
            let replaced = view.unasked();
            let spec = &view.deployment.spec.template.spec;
            let held = self.quota.holds(&replaced, spec).await;
            self.note_quota(context, view, &replaced, held);
            view.confirm_deletion(deployments, instances, &self.writer)
                .await?;
            // The API server can have another Instance or another template than the cache.
            if !view.unasked().is_empty() {
                continue;
            }
            // Only now: an Instance that waits for others must not keep quota from other WorkloadDeployments.
            let Some(next) = view.next_replaced() else {
                return Ok(());
            };
            let spec = &view.deployment.spec.template.spec;
            let held = self.quota.promise(&next, spec).await;
            if held.is_none() {
                return Ok(());
            }
            self.note_quota(context, view, &[next], vec![held]);
        }
    }

    /// Records in the view why these Instances are not replaced now.
    fn note_quota(
        &self,
        context: &ReconcileContext,
        view: &mut View,
        replaced: &[Arc<Instance>],
        mut held: Vec<Option<Held>>,
    ) {
        for (instance, held) in replaced.iter().zip(&mut held) {
            let refused = held.as_mut().filter(|it| it.reason != QUOTA_EXCEEDED);
            if let Some(Held { reason, message }) = refused {
                let text = mem::take(message);
                *message = self
                    .writer
                    .shown_refusal(context, instance.as_ref(), reason, text);
            }
        }
        view.note_quota(replaced, held);
    }

    async fn ensure(
        &self,
        context: &ReconcileContext,
        instances: &Collection<'_, Instance>,
        deployment: &WorkloadDeployment,
        existing: Option<&Instance>,
        ordinal: i32,
    ) -> Result<(), ReconcileError> {
        let mut body = body(deployment, ordinal);
        if existing.is_none() {
            self.prepare_new(deployment, &mut body);
        }
        let labels = linking_labels(deployment, ordinal);
        // The body has the hash already. The template may be large.
        let hash = body.pointer("/spec/controller/templateHash");
        let hash = hash.and_then(Value::as_str);
        let as_wanted = |written: &Instance| {
            let controller = written.spec.controller.as_ref();
            covers(written.labels(), &labels)
                && controller.map(|controller| controller.template_hash.as_str()) == hash
        };
        self.writer
            .ensure(context, instances, existing, &body, &[], as_wanted)
            .await
            .map(drop)
    }
}

impl DeploymentController {
    /// Adds to the body of a new Instance what other controllers remove or add later. The create is a POST, so a later
    /// apply of this controller does not own these fields: it neither removes them nor adds them again.
    fn prepare_new(&self, deployment: &WorkloadDeployment, body: &mut Value) {
        // The write-back needs its finalizer. Adding the finalizer later could conflict with the first write of the
        // infrastructure provider.
        let mut finalizers = vec![finalizers::INSTANCE_CONTROLLER];
        if self.gates.contains(&gate::QUOTA) {
            finalizers.push(finalizers::QUOTA_CLAIM);
        }
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        let holds = self.gates.contains(&gate::REFERENCED_DATA);
        if let Some(record) = data_record(deployment).filter(|_| holds)
            && let Some(annotations) = body.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.insert(REFERENCED_DATA_VERSIONS.to_owned(), json!(record));
        }
        let uses_data = !references(&deployment.spec.template.spec).is_empty();
        let gates = self.gates.iter().copied();
        let gates: Vec<_> = gates
            .filter(|gate| uses_data || *gate != gate::REFERENCED_DATA)
            .collect();
        let controller = body.pointer_mut("/spec/controller");
        if let Some(controller) = controller.and_then(Value::as_object_mut)
            && !gates.is_empty()
        {
            controller.insert("schedulingGates".to_owned(), gate::list(&gates));
        }
        let location = self.cell.location_of_new(&deployment.spec.city_code);
        if let Some(location) = location
            && deployment.spec.template.spec.location.is_none()
            && let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.insert("location".to_owned(), json!(location));
        }
    }
}

/// Returns the Instance of this ordinal. It consists of the template, labels, and an owner reference to the
/// WorkloadDeployment.
fn body(deployment: &WorkloadDeployment, ordinal: i32) -> Value {
    let template = &deployment.spec.template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels;
    labels.extend(linking_labels(deployment, ordinal));
    let controller = InstanceControllerSpec {
        template_hash: template_hash(deployment),
        ..InstanceControllerSpec::default()
    };
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": instance_name(deployment, ordinal),
            "namespace": deployment.namespace(),
            "labels": labels,
            "annotations": metadata.annotations,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": InstanceSpec { controller: Some(controller), ..template.spec.clone() },
    })
}
