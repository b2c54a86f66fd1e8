//! An Instance's copy on the hub (compute.md 2.6).
//!
//! The hub is read, not watched: a cell has no business in what other cells have there (compute.md 6.4), and what is
//! copied changes in the cell.

mod left;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;

use api::{Instance, InstanceStatus, WorkloadDeployment, finalizers};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use multicluster::Outcome;
use multicluster::queue::Limits;
use serde_json::{Value, json};

use crate::cell::CellCaches;
use crate::objects::{StringMap, controller_reference, deployment_name, is_terminating};
use crate::runtime::events::Events;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{HubSide, Observed, Plan, Transition, plan};

pub(crate) struct InstanceWriteback {
    pub(crate) cell: Arc<CellCaches>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
}

impl Controller for InstanceWriteback {
    const NAME: &'static str = "instance-writeback";
    type Key = ObjectKey;
    /// The hub may be far away, so that most of the time is spent waiting: after a start all Instances are compared with
    /// their copies, and what happens meanwhile comes after them.
    const LIMITS: Limits = Limits {
        per_tenant: 16,
        ..Limits::DEFAULT
    };

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let Some(instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
            self.delete_left(context, &key).await?;
            return Ok(Outcome::Gone);
        };
        let hub = self.observe_hub(&instance).await?;
        let instance = self.as_it_is_now(&key, instance)?;
        let plan = self.plan(context, &instance, &hub);
        self.write_instance(context, &instance, &plan).await?;
        self.write_copy(context, &instance, &hub, &plan).await?;
        if plan.remove_finalizer {
            let finalizer = finalizers::INSTANCE_CONTROLLER;
            self.writer
                .remove_finalizer(
                    context,
                    &self.in_cell(&instance),
                    instance.as_ref(),
                    finalizer,
                )
                .await?;
        }
        Ok(plan.look_again.map_or(Outcome::Settled, Outcome::Again))
    }
}

impl InstanceWriteback {
    fn plan(&self, context: &ReconcileContext, instance: &Instance, hub: &HubSide) -> Plan {
        plan(&Observed {
            cell: &self.cell.name,
            instance,
            hub,
            now: context.now(),
        })
    }

    /// Reads what there must be for a copy; of a terminating Instance the copy alone.
    async fn observe_hub(&self, instance: &Instance) -> Result<HubSide, ReconcileError> {
        let (copies, own_name) = (self.on_hub(instance), instance.name_any());
        if is_terminating(instance) {
            return Ok(HubSide {
                copy: copies.read(&own_name).await?,
                ..HubSide::default()
            });
        }
        let name = instance.namespace().unwrap_or_default();
        let namespaces = Collection::<Namespace>::of_plane(&self.cell.hub, None);
        let deployments = Collection::<WorkloadDeployment>::new(&self.cell.hub, &name, None);
        let deployment = async {
            match deployment_name(instance.meta()) {
                Some(deployment) => deployments.read(deployment).await,
                None => Ok(None),
            }
        };
        // The hub may be far away.
        let (copy, namespace, deployment) =
            tokio::try_join!(copies.read(&own_name), namespaces.read(&name), deployment)?;
        Ok(HubSide {
            namespace,
            deployment,
            copy,
        })
    }

    /// The hub may be far away, and the provider has written meanwhile: what is decided on an older Instance is refused. One
    /// for which the hub is to be asked about something else has told of itself, and comes again.
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

    async fn write_instance(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        plan: &Plan,
    ) -> Result<(), ReconcileError> {
        let instances = self.in_cell(instance);
        if plan.add_finalizer {
            let finalizer = finalizers::INSTANCE_CONTROLLER;
            return self
                .writer
                .add_finalizer(context, &instances, instance, finalizer, &StringMap::new())
                .await
                .map(drop);
        }
        if let Some(conditions) = &plan.conditions {
            self.writer
                .patch_status(
                    context,
                    &instances,
                    instance,
                    json!({"conditions": conditions}),
                )
                .await?;
        }
        match &plan.transition {
            Some(Transition::Copied) => {
                self.events
                    .publish(
                        instance,
                        EventType::Normal,
                        "CopiedToHub",
                        "copied to the hub",
                    )
                    .await;
            }
            Some(Transition::NotCopied(refusal)) => {
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
        hub: &HubSide,
        plan: &Plan,
    ) -> Result<(), ReconcileError> {
        let copies = self.on_hub(instance);
        if let (true, Some(copy)) = (plan.delete_copy, &hub.copy) {
            return self.writer.delete(context, &copies, copy).await;
        }
        if let (Some(labels), Some(owner)) = (&plan.apply_copy, &hub.deployment) {
            let body = copy_body(instance, owner, labels);
            let as_wanted = |written: &Instance| written.spec == instance.spec;
            let copy = self
                .writer
                .ensure(
                    context,
                    &copies,
                    hub.copy.as_ref(),
                    &body,
                    &["/spec"],
                    as_wanted,
                )
                .await?;
            // The status follows in the same breath: the cell does not watch the hub and would not hear of the copy.
            let hub = HubSide {
                namespace: hub.namespace.clone(),
                deployment: hub.deployment.clone(),
                copy: Some(copy),
            };
            let status = self.plan(context, instance, &hub).copy_status;
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
            Some((copy, status)) => {
                self.writer
                    .apply_status(context, copies, &copy, json!(status))
                    .await
            }
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

/// The copy: what the cell has, owned by the hub's WorkloadDeployment, so that the hub's own garbage collection takes it.
fn copy_body(instance: &Instance, owner: &WorkloadDeployment, labels: &StringMap) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": instance.name_any(),
            "namespace": instance.namespace(),
            "labels": labels,
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": instance.spec,
    })
}
