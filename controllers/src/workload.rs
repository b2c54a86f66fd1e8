//! Workload → WorkloadDeployments, on the project plane (compute.md 2.1).

mod plan;

use std::sync::Arc;

use api::{Workload, WorkloadDeployment, WorkloadDeploymentSpec, finalizers, labels};
use kube::ResourceExt;
use planes::Outcome;
use serde_json::{Value, json};

use crate::error::FirstError;
use crate::keys::ProjectKey;
use crate::objects::{Keys, controller_reference, describe};
use crate::watched::{Project, Projects};
use crate::wiring::Controller;
use crate::write::{Collection, Writer, merge_patch};
use crate::{Clock, ReconcileError};
use plan::{Desired, Observed, own_status, owner, plan};

/// The parts of a deployment's spec that the Workload alone writes; `replicas` is an autoscaler's.
const OWN: [&str; 2] = ["/spec/scaleSettings", "/spec/template"];

pub(crate) struct WorkloadController {
    pub(crate) projects: Arc<Projects>,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
}

impl Controller for WorkloadController {
    const NAME: &'static str = "workload";
    type Key = ProjectKey;

    async fn reconcile(&self, key: ProjectKey) -> Result<Outcome, ReconcileError> {
        let project = self.projects.get(&key.project)?;
        let Some(workload) = project.workloads.get(&key.namespace, &key.name)? else {
            return Ok(Outcome::Gone);
        };
        let uid = workload.uid().unwrap_or_default();
        let mut own = project.deployments.list(&key.namespace)?;
        own.retain(|deployment| owner(deployment) == uid);
        let deployment = |name: &str| project.deployments.get(&key.namespace, name);
        // One that cannot be decoded has its name nevertheless.
        let is_taken = |name: &str| !matches!(deployment(name), Ok(None));
        let refusals = Keys::new();
        let observed = Observed {
            workload: &workload,
            own: &own,
            is_taken: &is_taken,
            refusals: &refusals,
            now: (self.clock)(),
        };
        self.execute(&project, &observed).await?;
        Ok(Outcome::Settled)
    }
}

impl WorkloadController {
    async fn execute(
        &self,
        project: &Project,
        observed: &Observed<'_>,
    ) -> Result<(), ReconcileError> {
        let mut workload = observed.workload;
        let mut plan = plan(observed);
        let namespace = workload.namespace().unwrap_or_default();
        let workloads = Collection::new(&project.client, &namespace, Some(&project.workloads));
        let deployments = Collection::new(&project.client, &namespace, Some(&project.deployments));
        let finalizer = finalizers::WORKLOAD_CONTROLLER;
        let held;
        if plan.add_finalizer {
            held = self
                .writer
                .add_finalizer(&workloads, workload, finalizer, &Keys::new())
                .await?;
            workload = &held;
        }
        let mut errors = FirstError::default();
        for deployment in &plan.delete {
            errors.note(self.writer.delete(&deployments, deployment.as_ref()).await);
        }
        let mut refusals = Keys::new();
        for desired in &plan.apply {
            let ensured = self.ensure(&deployments, workload, desired).await;
            if let Some(refusal) = ensured.as_ref().err().and_then(ReconcileError::refusal) {
                refusals.insert(desired.spec.placement_name.clone(), refusal);
            }
            errors.note(ensured);
        }
        if !refusals.is_empty() {
            let observed = Observed {
                refusals: &refusals,
                ..*observed
            };
            plan.status = plan::plan(&observed).status;
        }
        if let Some(status) = &plan.status {
            // Others can have conditions there too.
            let patch = merge_patch(own_status(workload).as_ref(), status);
            let patched = self.writer.patch_status(&workloads, workload, patch);
            errors.note(patched.await);
        }
        errors.result()?;
        if plan.remove_finalizer {
            let uid = workload.uid().unwrap_or_default();
            if deployments.has_child(labels::WORKLOAD_UID, &uid).await? {
                return Err(ReconcileError::NotYet {
                    object: describe(workload),
                    missing: "its WorkloadDeployments to be gone".to_owned(),
                });
            }
            self.writer
                .remove_finalizer(&workloads, workload, finalizer)
                .await?;
        }
        Ok(())
    }

    async fn ensure(
        &self,
        deployments: &Collection<'_, WorkloadDeployment>,
        workload: &Workload,
        desired: &Desired,
    ) -> Result<(), ReconcileError> {
        let as_wanted = |written: &WorkloadDeployment| {
            WorkloadDeploymentSpec {
                replicas: None,
                ..written.spec.clone()
            } == desired.spec
        };
        let body = body(workload, desired);
        let existing = desired.existing.as_deref();
        self.writer
            .ensure(deployments, existing, &body, &OWN, as_wanted)
            .await
    }
}

fn body(workload: &Workload, desired: &Desired) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "WorkloadDeployment",
        "metadata": {
            "name": desired.name,
            "namespace": workload.namespace(),
            "labels": desired.labels,
            "ownerReferences": [controller_reference(workload)],
        },
        "spec": desired.spec,
    })
}
