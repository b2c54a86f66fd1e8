//! Opens the gate `ReferencedData` of an Instance when its ConfigMaps and Secrets are in the cell
//! (docs/concepts/referenced-data.md).
//!
//! Nothing watches ConfigMaps and Secrets of the cell: the right to watch them is the right to read them all. Only the
//! metadata of those that an Instance waits for are read, by name.

mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Instance;
use api::references::Source;
use kube::ResourceExt;
use multicluster::{Metrics, Outcome};
use serde_json::json;

use crate::cell::CellCaches;
use crate::cell_companions::CellCompanions;
use crate::gate::{GateStep, REFERENCED_DATA};
use crate::objects::is_terminating;
use crate::referenced_data::version::SourceVersion;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{Needed, Observed, Plan, Unmet, needs, plan};

pub(crate) struct DataGateController {
    cell: Arc<CellCaches>,
    writer: Writer,
    /// Whether Instances are held back for their data.
    awaits_data: bool,
    companions: CellCompanions,
}

impl Controller for DataGateController {
    const NAME: &'static str = "data-gate";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let Some(mut instance) = self.cell.instances.get(&key.namespace, &key.name)? else {
            return Ok(Outcome::Gone);
        };
        // The condition, and then the gate.
        for _ in 0..2 {
            if is_terminating(instance.as_ref()) {
                return Ok(Outcome::Settled);
            }
            let deployment = self.cell.deployment_of(&instance);
            let needs = needs(&instance, deployment.as_deref());
            let companions = self.look(context, &key, &needs).await?;
            let Plan { step, look_again } = plan(&Observed {
                instance: &instance,
                needs: &needs,
                companions: &companions,
                awaits_data: self.awaits_data,
                cell: &self.cell.name,
                now: context.now(),
            });
            let Some(step) = step else {
                return Ok(look_again.map_or(Outcome::Settled, Outcome::Again));
            };
            match self.take(context, &instance, step).await? {
                Some(written) => instance = Arc::new(written),
                None => return Ok(Outcome::Settled),
            }
        }
        // The event of the last write triggers the next reconciliation, but a companion has no event.
        Ok(Outcome::Again(plan::SOON))
    }
}

impl DataGateController {
    /// Makes the controller. `awaits_data` is whether Instances are held back for their data.
    pub(crate) fn new(cell: Arc<CellCaches>, awaits_data: bool, metrics: &Metrics) -> Self {
        Self {
            cell,
            writer: Writer::new(Self::NAME, metrics),
            awaits_data,
            companions: CellCompanions::default(),
        }
    }

    /// Looks for the companions that an Instance waits for.
    async fn look(
        &self,
        context: &ReconcileContext,
        instance: &ObjectKey,
        needs: &Result<Needed, Unmet>,
    ) -> Result<BTreeMap<Source, SourceVersion>, ReconcileError> {
        let mut found = BTreeMap::new();
        let needed = needs.iter().filter(|_| self.awaits_data);
        for source in needed.flat_map(Needed::keys) {
            let (client, now) = (&self.cell.client, context.now());
            let looked = self
                .companions
                .look(client, &instance.namespace, source, now);
            let version = looked.await?;
            found.extend(version.map(|version| (source.clone(), version)));
        }
        Ok(found)
    }

    /// Writes to an Instance, and returns it as it is stored.
    async fn take(
        &self,
        context: &ReconcileContext,
        instance: &Instance,
        step: GateStep,
    ) -> Result<Option<Instance>, ReconcileError> {
        let cell = &self.cell;
        let namespace = instance.namespace().unwrap_or_default();
        let instances = Collection::new(&cell.client, &namespace, Some(&cell.instances));
        match step {
            GateStep::Write(conditions) => {
                let status = json!({"conditions": conditions});
                self.writer
                    .patch_status(context, &instances, instance, status)
                    .await
                    .map(Some)
            }
            GateStep::Open => {
                REFERENCED_DATA
                    .open(&self.writer, context, &instances, instance)
                    .await
            }
        }
    }
}
