//! Events about the life of the Instances and WorkloadDeployments of a cell. They are for customers: each event names
//! the Workload of the project (docs/concepts/flow.md#events-for-customers).
//!
//! An event follows from what a write has changed. A process that starts finds nothing to write, so it publishes
//! nothing.

mod transitions;

use std::sync::Arc;

use api::workload_deployment::WorkloadReference;
use api::{Instance, Workload, WorkloadDeployment, labels};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use multicluster::{Metrics, Tasks};

use crate::cell::CellCaches;
use crate::objects::label;
use crate::runtime::events::{CellEvent, EventPublisher};
use transitions::LifeEvent;

/// The reporting controller of events about Instances.
const OF_INSTANCES: &str = "compute.datumapis.com/instance-controller";
/// The reporting controller of events about WorkloadDeployments.
const OF_DEPLOYMENTS: &str = "compute.datumapis.com/workload-deployment-controller";

/// Publishes the events of a cell. Nothing is published without the Workload, because customers look for its events.
#[derive(Clone)]
pub(crate) struct Lifecycle {
    cell: Arc<CellCaches>,
    publisher: EventPublisher,
}

impl Lifecycle {
    /// Starts to publish the events of a cell.
    pub(crate) fn start(cell: &Arc<CellCaches>, tasks: &Tasks, metrics: &Metrics) -> Self {
        Self {
            cell: Arc::clone(cell),
            publisher: EventPublisher::start(tasks, metrics),
        }
    }

    /// Publishes what a write of the status of an Instance has changed. `former` is the Instance before the write.
    pub(crate) fn instance_written(&self, former: &Instance, written: &Instance) {
        if let Some(event) = transitions::of_instance(former, written) {
            self.publish_about(written, event);
        }
    }

    /// Publishes that the cell has begun to delete this Instance.
    pub(crate) fn instance_deleted(&self, instance: &Instance) {
        if let Some(event) = transitions::of_deletion(instance) {
            self.publish_about(instance, event);
        }
    }

    /// Publishes what a write of the status of a WorkloadDeployment has changed. `former` is the WorkloadDeployment
    /// before the write. `refusal` says why an Instance is not suspended or resumed, if one is not.
    pub(crate) fn deployment_written(
        &self,
        former: &WorkloadDeployment,
        written: &WorkloadDeployment,
        refusal: Option<&str>,
    ) {
        let changed = transitions::of_deployment(former, written);
        let failed = refusal.and_then(|refusal| transitions::of_refusal(former, written, refusal));
        for event in changed.into_iter().chain(failed) {
            self.publish(OF_DEPLOYMENTS, written, written, event);
        }
    }

    fn publish_about(&self, instance: &Instance, event: LifeEvent) {
        if let Some(deployment) = self.cell.deployment_of(instance) {
            self.publish(OF_INSTANCES, instance, &deployment, event);
        }
    }

    fn publish<K: Resource<DynamicType = ()>>(
        &self,
        controller: &'static str,
        object: &K,
        deployment: &WorkloadDeployment,
        event: LifeEvent,
    ) {
        let LifeEvent {
            type_,
            reason,
            note,
        } = event;
        if let Some(workload) = workload_of(deployment) {
            let event = CellEvent {
                controller,
                object: object.object_ref(&()),
                related: workload,
                type_,
                reason,
                note,
            };
            self.publisher.publish_in_cell(&self.cell.client, event);
        }
    }
}

/// Returns the Workload in the project. The federator has labelled the WorkloadDeployment with its namespace there.
fn workload_of(deployment: &WorkloadDeployment) -> Option<ObjectReference> {
    let namespace = label(deployment, labels::UPSTREAM_NAMESPACE)?;
    let WorkloadReference { name, uid, .. } = &deployment.spec.workload_ref;
    Some(ObjectReference {
        api_version: Some(Workload::api_version(&()).into_owned()),
        kind: Some(Workload::kind(&()).into_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    })
}
