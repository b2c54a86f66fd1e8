//! The heartbeats of the processes of lower hubs: Leases on the hub
//! (docs/concepts/freshness.md#a-lower-hub-without-its-process).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::LowerHub;
use api::lower_hub::lease_of;
use api::rights::NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use multicluster::Cache;
use multicluster::cache::{Change, Reflector};
use tokio::time::Instant;

use crate::lock::lock;
use crate::runtime::ReconcileError;
use crate::runtime::write::Collection;

/// The LowerHubs of a hub, and the heartbeats of their processes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WatchedLowerHubs {
    pub(crate) client: Client,
    /// The cache stays empty if the hub does not serve the kind.
    pub(crate) cache: Cache<LowerHub>,
    pub(crate) heartbeats: Arc<Heartbeats>,
}

impl WatchedLowerHubs {
    /// Heartbeats are forgotten with their LowerHub, also in a process that does not lead.
    pub(crate) fn new(
        client: Client,
        lower_hubs: &mut Reflector<LowerHub>,
        leases: &Reflector<Lease>,
    ) -> Self {
        let heartbeats = Arc::new(Heartbeats::new(leases.cache()));
        lower_hubs.on_change({
            let heartbeats = Arc::clone(&heartbeats);
            move |change: Change<'_>| {
                if let Some(former) = change.former
                    && change.current.is_none_or(|it| it.uid != former.uid)
                    && let Some(name) = &former.name
                {
                    heartbeats.forget(name);
                }
            }
        });
        Self {
            client,
            cache: lower_hubs.cache(),
            heartbeats,
        }
    }

    /// Reads the Lease of a lower hub from the API server, and observes it. A watch that a proxy has dropped is noticed
    /// later than a silent process.
    ///
    /// # Errors
    ///
    /// [`ReconcileError::Api`].
    pub(crate) async fn look(&self, lower_hub: &str) -> Result<(), ReconcileError> {
        let leases = Collection::<Lease>::new(&self.client, NAMESPACE, None);
        let name = format!("metadata.name={}", lease_of(lower_hub));
        let found = leases.select(&name, 1).await?;
        self.heartbeats
            .note(lower_hub, found.first().and_then(renew_time));
        Ok(())
    }
}

/// The Leases of lower hubs, and when this process saw them change. The clocks of other processes do not matter.
pub(crate) struct Heartbeats {
    leases: Cache<Lease>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last change of each Lease, by the name of the LowerHub.
    renewals: BTreeMap<String, Renewal>,
    /// When this process last found that it could not see heartbeats.
    blind: Option<Instant>,
}

/// A renewal of a Lease, as this process saw it.
struct Renewal {
    time: Timestamp,
    seen: Instant,
    /// Whether this process saw an earlier renewal too. If not, the renewal can be old.
    is_change: bool,
}

/// The last heartbeat of the process of a lower hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastHeartbeat {
    /// The time on the clock of the process of the lower hub.
    pub(crate) time: Timestamp,
    /// For how long this process has seen no heartbeat. While it could not see any, the time does not count.
    pub(crate) age: Duration,
    /// Whether this process has seen a heartbeat arrive.
    pub(crate) has_arrived: bool,
}

impl Heartbeats {
    fn new(leases: Cache<Lease>) -> Self {
        Self {
            leases,
            state: Mutex::default(),
        }
    }

    /// Observes the Lease of a lower hub after a change of the cache.
    pub(crate) fn observe(&self, lower_hub: &str) {
        let lease = self.leases.get(NAMESPACE, &lease_of(lower_hub));
        let lease = lease.ok().flatten();
        self.note(lower_hub, lease.as_deref().and_then(renew_time));
    }

    /// Notes the time in the Lease of a lower hub.
    fn note(&self, lower_hub: &str, time: Option<Timestamp>) {
        let mut state = lock(&self.state);
        let former = state.renewals.get(lower_hub);
        match (time, former) {
            // The last heartbeat stays the last one.
            (None, _) => {}
            (Some(time), Some(former)) if former.time == time => {}
            (Some(time), former) => {
                let renewal = Renewal {
                    time,
                    seen: Instant::now(),
                    is_change: former.is_some(),
                };
                state.renewals.insert(lower_hub.to_owned(), renewal);
            }
        }
    }

    /// Forgets a LowerHub that no longer exists.
    pub(crate) fn forget(&self, lower_hub: &str) {
        lock(&self.state).renewals.remove(lower_hub);
    }

    /// Returns whether heartbeats would be seen at present.
    pub(crate) fn are_seen(&self) -> bool {
        let is_current = self.leases.sync_state().borrow().is_current();
        if !is_current {
            let mut state = lock(&self.state);
            state.blind = Some(Instant::now());
        }
        is_current
    }

    /// Returns the last heartbeat. Returns `None` if this process knows of none: the process of the lower hub does not run
    /// yet, or has a former version, or its Lease does not exist.
    pub(crate) fn last(&self, lower_hub: &str) -> Option<LastHeartbeat> {
        let state = lock(&self.state);
        let renewal = state.renewals.get(lower_hub)?;
        let since = state.blind.map_or(renewal.seen, |it| it.max(renewal.seen));
        Some(LastHeartbeat {
            time: renewal.time,
            age: since.elapsed(),
            has_arrived: renewal.is_change,
        })
    }
}

fn renew_time(lease: &Lease) -> Option<Timestamp> {
    let time = lease.spec.as_ref()?.renew_time.as_ref()?;
    Some(time.0)
}
