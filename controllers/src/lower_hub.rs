//! Reports the cells of a lower hub to its upper hub: the status of the LowerHub there
//! (docs/concepts/freshness.md#cells-below-lower-hubs).
//!
//! The upper hub is read but not watched, because a lower hub must not see more of it than its own LowerHub.

mod hubs;
mod plan;
#[cfg(test)]
mod reconcile_tests;
pub(crate) mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{CellName, LowerHub};
use kube::Client;
use multicluster::Outcome;
use tokio::time::Instant;

use crate::hub::clusters::ClusterStates;
use crate::hub::heartbeats::WatchedLowerHubs;
use crate::runtime::keys::ObjectKey;
use crate::runtime::wiring::Controller;
use crate::runtime::write::{Collection, Writer, merge_patch};
use crate::runtime::{ReconcileContext, ReconcileError};
pub use hubs::HeldReport;
use hubs::require_each_other;
use plan::{Observed, status};

/// How long to wait for the cache of Clusters. A watch that goes on after a failure does not wake this controller, and a
/// dead cell below a further lower hub may wait for it. The check makes no request.
const NOT_CURRENT: Duration = Duration::from_secs(1);
/// How often the LowerHub is read. No watch reports that it was made anew, or that its status was changed.
const CHECK: Duration = Duration::from_mins(1);
/// Pause after a write for each cell in the list, which is written as a whole: the first change is reported at once, and
/// all changes of the next 10 s if there are 10,000 cells.
const PAUSE_PER_CELL: Duration = Duration::from_millis(1);

/// The lower hub, and what it knows of its cells.
pub(crate) struct LowerHubCaches {
    /// The Cluster of the lower hub on the upper hub.
    pub(crate) name: CellName,
    /// The lower hub.
    pub(crate) client: Client,
    /// The upper hub.
    pub(crate) upper_hub: Client,
    pub(crate) clusters: ClusterStates,
    /// The LowerHubs of the lower hub.
    pub(crate) lower_hubs: WatchedLowerHubs,
    /// Whether the last report arrived, or was not needed.
    pub(crate) has_reported: AtomicBool,
}

impl LowerHubCaches {
    /// Returns whether the upper hub knows the state of the cells: the Clusters are known, and were reported.
    pub(crate) fn are_reported(&self) -> bool {
        self.has_reported.load(Ordering::Relaxed) && self.clusters.are_current()
    }
}

pub(crate) struct LowerHubController {
    caches: Arc<LowerHubCaches>,
    writer: Writer,
    held: HeldReport,
    /// The end of the pause after the last write.
    paused_until: Mutex<Option<Instant>>,
}

impl Controller for LowerHubController {
    const NAME: &'static str = "lower-hub";
    type Key = ObjectKey;

    /// Reports all cells together.
    async fn reconcile(
        &self,
        context: &ReconcileContext,
        _: ObjectKey,
    ) -> Result<Outcome, ReconcileError> {
        let pause = self.pause();
        if !pause.is_zero() {
            return Ok(Outcome::Again(pause));
        }
        let Some(observed) = self.observe() else {
            return Ok(Outcome::Again(NOT_CURRENT));
        };
        let reported = self.report(context, &observed).await;
        let has_reported = &self.caches.has_reported;
        has_reported.store(reported.is_ok(), Ordering::Relaxed);
        self.held.note(&reported);
        reported.map(|()| Outcome::Again(CHECK))
    }
}

impl LowerHubController {
    pub(crate) fn new(caches: Arc<LowerHubCaches>, writer: Writer, held: HeldReport) -> Self {
        Self {
            caches,
            writer,
            held,
            paused_until: Mutex::default(),
        }
    }

    /// Makes the status of the LowerHub as wanted. Its conditions belong to the upper hub.
    async fn report(
        &self,
        context: &ReconcileContext,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let name = self.caches.name.as_str();
        let lower_hubs = Collection::<LowerHub>::of_plane(&self.caches.upper_hub, None);
        let Some(existing) = lower_hubs.read(name).await? else {
            return Err(ReconcileError::NotYet {
                object: format!("LowerHub {name} of the upper hub"),
                missing: "an administrator to create it".to_owned(),
            });
        };
        let hubs = [&self.caches.client, &self.caches.upper_hub];
        let hub_uid =
            require_each_other(hubs, &self.writer, context, &existing, &self.held).await?;
        let former = existing.status.as_ref();
        let mut wanted = status(observed, former);
        wanted.hub_uid = hub_uid.or(wanted.hub_uid);
        if former != Some(&wanted) {
            let cells = u32::try_from(wanted.cells.len()).unwrap_or(u32::MAX);
            let patch = merge_patch(former, &wanted);
            self.writer
                .patch_status(context, &lower_hubs, &existing, patch)
                .await?;
            self.pause_for(PAUSE_PER_CELL * cells);
        }
        Ok(())
    }

    /// Returns what is known of the cells. Returns `None` while the Clusters are not known: no cell may be removed from
    /// the list then.
    fn observe(&self) -> Option<Observed> {
        let clusters = self.caches.clusters.all()?;
        let cache = &self.caches.lower_hubs.cache;
        let is_known = cache.refusal().is_none() && *cache.synced().borrow();
        let (mut lower_hubs, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for name in clusters.keys() {
            match cache.get("", name) {
                Ok(Some(lower_hub)) if is_known => {
                    lower_hubs.insert(name.clone(), lower_hub);
                }
                Ok(None) if is_known => {}
                _ => {
                    unreadable.insert(name.clone());
                }
            }
        }
        Some(Observed {
            clusters,
            lower_hubs,
            unreadable,
        })
    }

    /// Returns the rest of the pause after the last write.
    fn pause(&self) -> Duration {
        let until = *self
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    fn pause_for(&self, pause: Duration) {
        let mut until = self
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *until = Some(Instant::now() + pause);
    }
}
