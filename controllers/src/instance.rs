//! Computes the condition `Ready` of an Instance in its cell. The controller never contacts the hub, so a slow or
//! unreachable hub does not delay the condition.

pub(crate) mod blocker;
pub(crate) mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::sync::Arc;

use multicluster::Outcome;
use serde_json::json;

use crate::cell::CellCaches;
use crate::lifecycle::Lifecycle;
use crate::objects::is_terminating;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer, stays};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::readiness;

pub(crate) struct ReadinessController {
    pub(crate) cell: Arc<CellCaches>,
    pub(crate) writer: Writer,
    pub(crate) lifecycle: Lifecycle,
}

impl Controller for ReadinessController {
    const NAME: &'static str = "instance";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let instances = &self.cell.instances;
        let Some(instance) = instances.get(&key.namespace, &key.name)? else {
            return Ok(Outcome::Gone);
        };
        let instance = instance.as_ref();
        if !is_terminating(instance)
            && let Some(conditions) = readiness(instance, context.now())
        {
            let to = Collection::new(&self.cell.client, &key.namespace, Some(instances));
            let status = json!({"conditions": conditions});
            let written = self
                .writer
                .patch_status(context, &to, instance, status)
                .await?;
            self.lifecycle.instance_written(instance, &written);
            // The write-back copies the status only after this condition is current.
            stays(written, |written| {
                readiness(written, context.now()).is_none()
            })?;
        }
        Ok(Outcome::Settled)
    }
}
