//! Shows on each LowerHub whether the process of the lower hub reports: the condition `Reporting`
//! (docs/concepts/freshness.md#a-lower-hub-without-its-process).
//!
//! The process of the lower hub writes the cells in the same status. It writes no condition.

mod plan;
#[cfg(test)]
mod reconcile_tests;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::LowerHub;
use api::condition::{self, Condition};
use api::lower_hub::REPORTING;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Resource, ResourceExt};
use multicluster::cache::{Change, Reflector};
use multicluster::heartbeat::BEAT_INTERVAL;
use multicluster::{Cache, Metrics, Outcome, Queue};
use serde_json::json;

use crate::hub::heartbeats::{Heartbeats, WatchedLowerHubs};
use crate::hub_in_use::HubCheck;
use crate::lock::lock;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{HubSource, wake};
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer};
use crate::runtime::{ReconcileContext, ReconcileError};
use plan::{unreported, with_status};
use triggers::{ON_HUB, beating};

pub(crate) struct HeartbeatController {
    hub: WatchedLowerHubs,
    hub_check: HubCheck,
    writer: Writer,
    metrics: Metrics,
    /// The LowerHubs whose processes are silent.
    silent: Mutex<BTreeSet<String>>,
    /// The UID of each LowerHub, and the condition that was written to it last. A CRD of a former release does not store
    /// the condition. With another time, it would be another write.
    written: Mutex<BTreeMap<String, (Option<String>, Condition)>>,
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
        let Some(lower_hub) = hub.cache.get("", &key.name)? else {
            // Before the first list, no LowerHub is in the cache.
            if *hub.cache.synced().borrow() {
                hub.heartbeats.forget(&key.name);
                lock(&self.written).remove(&key.name);
            }
            self.count(&key.name, false);
            return Ok(Outcome::Gone);
        };
        self.hub_check
            .verdict()
            .require_own(|| format!("LowerHub {}", key.name))?;
        if !hub.heartbeats.are_seen() {
            return Ok(Outcome::Again(BEAT_INTERVAL));
        }
        let now = context.now();
        let status = lower_hub.status.as_ref();
        let stored = status.and_then(|it| condition::find(&it.conditions, REPORTING));
        let written = self.written(&lower_hub);
        let former = stored.or(written.as_ref());
        let decide = |heartbeat| match (status, heartbeat) {
            (None, _) => unreported(lower_hub.meta(), now),
            (Some(status), heartbeat) => with_status(heartbeat, former, status.is_reported(), now),
        };
        let mut heartbeat = hub.heartbeats.last(&key.name);
        let mut wanted = decide(heartbeat);
        let is_silent = |it: Option<&Condition>| it.is_some_and(Condition::is_false);
        if is_silent(wanted.as_ref()) && !is_silent(former) {
            hub.look(&key.name).await?;
            heartbeat = hub.heartbeats.last(&key.name);
            wanted = decide(heartbeat);
        }
        self.count(&key.name, is_silent(wanted.as_ref()));
        if stored != wanted.as_ref() {
            self.note_written(&lower_hub, wanted.clone());
            let mut shown = status.cloned().unwrap_or_default();
            condition::remove(&mut shown.conditions, REPORTING);
            shown.conditions.extend(wanted);
            let patch = match status {
                Some(_) => json!({"conditions": shown.conditions}),
                // The API server takes no status without the numbers of cells.
                None => json!(shown),
            };
            let to = Collection::of_plane(&hub.client, Some(&hub.cache));
            self.writer
                .patch_status(context, &to, &lower_hub, patch)
                .await?;
        }
        // The check also notices when heartbeats cannot be seen. Then no process counts as silent.
        let is_former_version = status.is_some() && heartbeat.is_none();
        Ok(match is_former_version {
            true => Outcome::Settled,
            false => Outcome::Again(BEAT_INTERVAL),
        })
    }
}

impl HeartbeatController {
    pub(crate) fn new(
        hub: WatchedLowerHubs,
        hub_check: HubCheck,
        writer: Writer,
        metrics: &Metrics,
    ) -> Self {
        Self {
            hub,
            hub_check,
            writer,
            metrics: metrics.clone(),
            silent: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Returns the condition that was written last to this LowerHub.
    fn written(&self, lower_hub: &LowerHub) -> Option<Condition> {
        let written = lock(&self.written);
        let (uid, condition) = written.get(&lower_hub.name_any())?;
        (*uid == lower_hub.uid()).then(|| condition.clone())
    }

    fn note_written(&self, lower_hub: &LowerHub, condition: Option<Condition>) {
        let (name, uid) = (lower_hub.name_any(), lower_hub.uid());
        let mut written = lock(&self.written);
        match condition {
            Some(condition) => written.insert(name, (uid, condition)),
            None => written.remove(&name),
        };
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

/// Passes each change of a LowerHub, and each heartbeat of its process, to the triggers.
pub(crate) fn wake_on_heartbeats(
    lower_hubs: &mut Reflector<LowerHub>,
    leases: &mut Reflector<Lease>,
    heartbeats: &Arc<Heartbeats>,
    queue: &Queue<ObjectKey>,
) {
    lower_hubs.on_change({
        let queue = queue.clone();
        move |change| wake(&queue, ON_HUB, HubSource::AllLowerHubs, change, &())
    });
    let (heartbeats, queue) = (Arc::clone(heartbeats), queue.clone());
    leases.on_change(move |change: Change<'_>| {
        if let Some(lower_hub) = change.current.or(change.former).and_then(beating) {
            heartbeats.observe(lower_hub);
        }
        wake(&queue, ON_HUB, HubSource::Heartbeats, change, &());
    });
}

/// Adds the keys of all LowerHubs.
pub(crate) fn wake_all(lower_hubs: &Cache<LowerHub>, queue: &Queue<ObjectKey>) {
    let source = HubSource::AllLowerHubs;
    lower_hubs.replay(|change| wake(queue, ON_HUB, source, change, &()));
}
