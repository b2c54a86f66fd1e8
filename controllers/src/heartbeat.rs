//! Shows on each LowerHub whether the process of the lower hub reports: the condition `Reporting`
//! (docs/concepts/freshness.md#a-lower-hub-without-its-process).
//!
//! The process of the lower hub writes the cells in the same status. It writes no condition.

mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use api::condition::{self, Condition};
use api::lower_hub::REPORTING;
use multicluster::heartbeat::BEAT_INTERVAL;
use multicluster::{Metrics, Outcome};
use serde_json::json;

use crate::hub::HubCaches;
use crate::hub_in_use::HubInUse;
use crate::lock::lock;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::reporting;

pub(crate) struct HeartbeatController {
    hub: Arc<HubCaches>,
    hub_in_use: HubInUse,
    writer: Writer,
    metrics: Metrics,
    /// The LowerHubs whose processes are silent.
    silent: Mutex<BTreeSet<String>>,
}

impl Controller for HeartbeatController {
    const NAME: &'static str = "heartbeat";
    type Key = ObjectKey;

    async fn reconcile(
        &self,
        context: &ReconcileContext,
        key: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let hub = &self.hub;
        let lower_hub = hub.lower_hubs.get("", &key.name)?;
        let Some((lower_hub, status)) = lower_hub
            .as_ref()
            .and_then(|it| Some((it, it.status.as_ref()?)))
        else {
            // Nothing that could be old is shown.
            self.count(&key.name, false);
            return Ok(Outcome::Gone);
        };
        self.hub_in_use
            .require_own(|| format!("LowerHub {}", key.name))?;
        if !hub.heartbeats.are_seen() {
            return Ok(Outcome::Again(BEAT_INTERVAL));
        }
        let heartbeat = hub.heartbeats.last(&key.name);
        let former = condition::find(&status.conditions, REPORTING);
        let wanted = reporting(heartbeat, former, context.now());
        self.count(&key.name, wanted.as_ref().is_some_and(Condition::is_false));
        if former != wanted.as_ref() {
            let mut conditions = status.conditions.clone();
            condition::remove(&mut conditions, REPORTING);
            conditions.extend(wanted);
            let to = Collection::of_plane(&hub.client, Some(&hub.lower_hubs));
            let patch = json!({"conditions": conditions});
            self.writer
                .patch_status(context, &to, lower_hub, patch)
                .await?;
        }
        // The check also notices when heartbeats cannot be seen. Then no process counts as silent.
        Ok(heartbeat.map_or(Outcome::Settled, |_| Outcome::Again(BEAT_INTERVAL)))
    }
}

impl HeartbeatController {
    pub(crate) fn new(
        hub: Arc<HubCaches>,
        hub_in_use: HubInUse,
        writer: Writer,
        metrics: &Metrics,
    ) -> Self {
        Self {
            hub,
            hub_in_use,
            writer,
            metrics: metrics.clone(),
            silent: Mutex::default(),
        }
    }

    /// Counts a lower hub whose process is silent.
    fn count(&self, lower_hub: &str, is_silent: bool) {
        let mut silent = lock(&self.silent);
        match is_silent {
            true => silent.insert(lower_hub.to_owned()),
            false => silent.remove(lower_hub),
        };
        self.metrics.silent_lower_hubs(silent.len());
    }
}
