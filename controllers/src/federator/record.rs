//! Reports an invalid record of the hub namespace.

use api::WorkloadDeployment;
use api::reasons::workload_deployment::HUB_NAMESPACE_CONTRADICTED;
use kube::ResourceExt;

use super::Federator;
use super::plan::status::contradicted;
use crate::projects::ProjectCaches;
use crate::runtime::write::{Collection, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};

impl Federator {
    /// Shows in the status why nothing is written to the hub.
    pub(super) async fn report_invalid_record(
        &self,
        context: &ReconcileContext,
        project: &ProjectCaches,
        deployment: &WorkloadDeployment,
        problem: &ReconcileError,
    ) -> Result<(), ReconcileError> {
        let (problem, now) = (problem.to_string(), context.now());
        let status = contradicted(deployment, HUB_NAMESPACE_CONTRADICTED, &problem, now);
        if deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let namespace = deployment.namespace().unwrap_or_default();
        let upstream = Collection::new(&project.client, &namespace, Some(&project.deployments));
        let patch = merge_patch(deployment.status.as_ref(), &status);
        self.writer
            .patch_status(context, &upstream, deployment, patch)
            .await
            .map(drop)
    }
}
