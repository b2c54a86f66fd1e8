//! Suspends and resumes the Instances of a WorkloadDeployment (docs/concepts/flow.md#suspension). The infrastructure
//! provider acts on `status.suspended` of an Instance.

use std::sync::Arc;

use api::{Instance, WorkloadDeployment};
use serde_json::json;

use super::DeploymentController;
use crate::runtime::error::FirstError;
use crate::runtime::write::{Collection, stays};
use crate::runtime::{ReconcileContext, ReconcileError};

/// The result of the writes of `status.suspended`.
#[derive(Default)]
pub(super) struct Marks {
    /// Whether an Instance has changed.
    pub(super) is_changed: bool,
    /// The reason of the first write that the API server refused or did not store, or for which it could not call a
    /// webhook.
    pub(super) refusal: Option<String>,
}

impl DeploymentController {
    /// Makes `status.suspended` of these Instances that of their WorkloadDeployment.
    pub(super) async fn suspend_or_resume(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, Instance>,
        deployment: &WorkloadDeployment,
        instances: &[Arc<Instance>],
        errors: &mut FirstError,
    ) -> Marks {
        let mut marks = Marks::default();
        for instance in instances {
            if errors.must_wait() {
                break;
            }
            let suspended = deployment.is_suspended();
            let written = self.set_suspended(context, to, instance, suspended).await;
            let refusal = written
                .as_ref()
                .err()
                .and_then(ReconcileError::lasting_refusal);
            if let Some(refusal) = refusal.filter(|_| marks.refusal.is_none()) {
                let shown = self.writer.shown_refusal(context, deployment, "", refusal);
                marks.refusal = Some(shown);
            }
            marks.is_changed |= errors.note(written).is_some();
        }
        marks
    }

    async fn set_suspended(
        &self,
        context: &ReconcileContext,
        to: &Collection<'_, Instance>,
        instance: &Instance,
        suspended: bool,
    ) -> Result<(), ReconcileError> {
        let status = json!({"suspended": suspended.then_some(true)});
        let written = self
            .writer
            .patch_status(context, to, instance, status)
            .await?;
        stays(written, |written| written.is_suspended() == suspended).map(drop)
    }
}
