//! Workload → WorkloadDeployments, on the project plane (compute.md 2.1).

mod plan;

use std::sync::Arc;

use api::{Workload, WorkloadDeployment, WorkloadDeploymentSpec, finalizers};
use kube::ResourceExt;
use planes::Outcome;
use serde_json::{Value, json};

use crate::keys::ProjectKey;
use crate::objects::{Keys, controller_reference};
use crate::watched::{Project, Projects};
use crate::wiring::Controller;
use crate::write::{Collection, Writer};
use crate::{Clock, ReconcileError};
use plan::{Desired, Observed, plan};

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
        let deployments = project.deployments.list(&key.namespace)?;
        let plan = plan(&Observed {
            workload: &workload,
            deployments: &deployments,
            now: (self.clock)(),
        });
        self.execute(project, &workload, plan).await?;
        Ok(Outcome::Settled)
    }
}

impl WorkloadController {
    async fn execute(
        &self,
        project: &Project,
        workload: &Workload,
        plan: plan::Plan,
    ) -> Result<(), ReconcileError> {
        let namespace = workload.namespace().unwrap_or_default();
        let workloads = Collection::new(&project.client, &namespace, Some(&project.workloads));
        let deployments = Collection::new(&project.client, &namespace, Some(&project.deployments));
        if plan.add_finalizer {
            let finalizer = finalizers::WORKLOAD_CONTROLLER;
            self.writer
                .add_finalizer(&workloads, workload, finalizer, &Keys::new())
                .await?;
        }
        for deployment in &plan.delete {
            self.writer
                .delete(&deployments, deployment.as_ref())
                .await?;
        }
        for desired in &plan.apply {
            let as_wanted = |written: &WorkloadDeployment| {
                WorkloadDeploymentSpec {
                    replicas: None,
                    ..written.spec.clone()
                } == desired.spec
            };
            let body = body(workload, desired);
            let existing = desired.existing.as_deref();
            self.writer
                .ensure(&deployments, existing, &body, &OWN, as_wanted)
                .await?;
        }
        if let Some(status) = plan.status {
            self.writer
                .apply_status(&workloads, &workload.name_any(), json!(status))
                .await?;
        }
        if plan.remove_finalizer {
            let finalizer = finalizers::WORKLOAD_CONTROLLER;
            self.writer
                .remove_finalizer(&workloads, workload, finalizer)
                .await?;
        }
        Ok(())
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
