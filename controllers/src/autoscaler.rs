//! Keeps a HorizontalPodAutoscaler for each WorkloadDeployment of a cell that has autoscaling settings
//! (docs/concepts/flow.md#autoscaling).

mod plan;
#[cfg(test)]
mod reconcile_tests;
mod report;
mod settings;
pub(crate) mod triggers;

use std::sync::Arc;
use std::time::Duration;

use api::WorkloadDeployment;
use api::annotations::CLEARED_REPLICAS;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use multicluster::Outcome;
use serde_json::json;

use crate::cell::CellCaches;
use crate::objects::contains;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{AutoscalerStep, Observed, may_be_retained, plan, replicas_from};
pub(crate) use report::{AutoscalerView, autoscaling_ready};

/// How long to wait before a WorkloadDeployment is tried again while the HorizontalPodAutoscalers of the cell are not
/// known.
const NOT_KNOWN: Duration = Duration::from_mins(1);
/// The field that an autoscaler writes.
const REPLICAS: &str = "/spec/replicas";
/// The annotation with the number that was removed.
const CLEARED: &str = "/metadata/annotations/compute.datumapis.com~1cleared-replicas";

pub(crate) struct AutoscalerController {
    pub(crate) cell: Arc<CellCaches>,
    pub(crate) writer: Writer,
}

impl Controller for AutoscalerController {
    const NAME: &'static str = "autoscaler";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let cell = &self.cell;
        let Some(mut deployment) = cell.deployments.get(&key.namespace, &key.name)? else {
            return Ok(Outcome::Gone);
        };
        if !cell.autoscalers.sync_state().borrow().is_current() {
            // Without autoscaling settings and a retained number, nothing waits for the list.
            let waits = deployment.spec.scale_settings.is_autoscaled();
            return Ok(match waits || may_be_retained(&deployment) {
                true => Outcome::Again(NOT_KNOWN),
                false => Outcome::Settled,
            });
        }
        let autoscaler = cell.autoscalers.get(&key.namespace, &key.name)?;
        let deployments = Collection::new(&cell.client, &key.namespace, Some(&cell.deployments));
        let has_other_autoscaler = may_be_retained(&deployment)
            && cell
                .autoscalers
                .list(&key.namespace)?
                .iter()
                .any(|other| plan::scales(&deployment, other));
        let look = |deployment: &WorkloadDeployment, replicas_from| {
            plan(&Observed {
                deployment,
                autoscaler: autoscaler.as_deref(),
                has_other_autoscaler,
                replicas_from,
            })
        };
        let mut step = look(&deployment, None);
        if step == Some(AutoscalerStep::AskWhoSetReplicas) {
            deployment = Arc::new(deployments.current(&deployment).await?);
            step = look(&deployment, Some(replicas_from(&deployment)));
        }
        if let Some(step) = step {
            let autoscaler = autoscaler.as_deref();
            self.take(context, &deployments, &deployment, autoscaler, step)
                .await?;
        }
        Ok(Outcome::Settled)
    }
}

impl AutoscalerController {
    async fn take(
        &self,
        context: &ReconcileContext,
        deployments: &Collection<'_, WorkloadDeployment>,
        deployment: &WorkloadDeployment,
        autoscaler: Option<&HorizontalPodAutoscaler>,
        step: AutoscalerStep,
    ) -> Result<(), ReconcileError> {
        let cell = &self.cell;
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let autoscalers = Collection::new(&cell.client, namespace, Some(&cell.autoscalers));
        let writer = &self.writer;
        match step {
            AutoscalerStep::AskWhoSetReplicas => Ok(()),
            AutoscalerStep::Ensure(spec) => {
                let body = plan::body(deployment, &spec);
                let as_wanted =
                    |stored: &HorizontalPodAutoscaler| contains(&json!(stored.spec), &json!(spec));
                writer
                    .ensure(context, &autoscalers, autoscaler, &body, &[], as_wanted)
                    .await
                    .map(drop)
            }
            AutoscalerStep::SetReplicas(replicas) => {
                let mut changes = vec![(REPLICAS, Some(json!(replicas)))];
                // From now on, each number is one of the autoscaler again.
                if deployment.annotations().contains_key(CLEARED_REPLICAS) {
                    changes.push((CLEARED, None));
                }
                writer
                    .set_fields(context, deployments, deployment, &changes)
                    .await
                    .map(drop)
            }
            AutoscalerStep::ClearReplicas => writer
                .set_field(context, deployments, deployment, REPLICAS, None)
                .await
                .map(drop),
            AutoscalerStep::ClearRetained(replicas) => {
                let record = json!(replicas.to_string());
                let changes = [(REPLICAS, None), (CLEARED, Some(record))];
                writer
                    .set_fields(context, deployments, deployment, &changes)
                    .await
                    .map(drop)
            }
            AutoscalerStep::Delete => match autoscaler {
                Some(autoscaler) => writer.delete(context, &autoscalers, autoscaler).await,
                None => Ok(()),
            },
        }
    }
}

impl CellCaches {
    /// Returns what is known about the autoscaler of this WorkloadDeployment.
    pub(crate) fn autoscaler_of(&self, deployment: &WorkloadDeployment) -> AutoscalerView {
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let name = deployment.metadata.name.as_deref().unwrap_or_default();
        let problem = self.autoscalers.refusal();
        match self.autoscalers.get(namespace, name) {
            Ok(autoscaler) => AutoscalerView {
                autoscaler,
                problem,
            },
            Err(undecodable) => AutoscalerView {
                autoscaler: None,
                problem: Some(undecodable.to_string()),
            },
        }
    }
}
