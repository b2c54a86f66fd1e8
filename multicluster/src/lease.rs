//! Leader election by a Lease, with the semantics of client-go's `leaderelection`. A lease has expired when *this*
//! process has not seen a change of the lease for the lease's duration. The clocks of other processes do not matter.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::clock;
use crate::metrics::Metrics;

/// How long a lease lasts without a renewal (client-go's default).
const DURATION: Duration = Duration::from_secs(15);
/// A leader that has not renewed its lease for this time stops (client-go's default).
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Wait between two tries to acquire or renew the lease (client-go's default).
const RETRY: Duration = Duration::from_secs(2);

/// The leader could not renew its lease in time. Another process may write from now on, so this process must stop.
#[derive(Debug, Error)]
#[error("the lease {0} was lost")]
pub struct Lost(String);

/// This process may not write. Another process may write now or soon.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("this process does not hold the lease: another one may write")]
pub struct NotLeading;

/// The leadership of this process: whether it may write, and until when. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Leadership {
    gained: CancellationToken,
    /// The time by which the lease must have been renewed; `None` if this process needs no lease.
    until: Arc<Mutex<Option<Instant>>>,
    /// Why the last request for the lease failed.
    problem: Arc<Mutex<Option<String>>>,
}

impl Leadership {
    /// Returns the leadership of a process that needs no lease.
    pub fn without_election() -> Self {
        let leadership = Self::default();
        leadership.gained.cancel();
        leadership
    }

    /// Returns a token that is cancelled once this process may write.
    pub fn gained(&self) -> CancellationToken {
        self.gained.clone()
    }

    /// Returns the time by which a write that begins now must have ended; `None` if this process needs no lease. A
    /// process that was stopped for too long gets an error as soon as it resumes. A suspended machine is an exception:
    /// its monotonic clock stops too.
    ///
    /// # Errors
    ///
    /// [`NotLeading`] if this process may not write.
    pub fn deadline(&self) -> Result<Option<Instant>, NotLeading> {
        // The lease sets `until` first, so a process that has gained the lease never lacks its deadline.
        let is_gained = self.gained.is_cancelled();
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = until.is_some_and(|until| until <= Instant::now());
        match is_gained && !is_over {
            true => Ok(until),
            false => Err(NotLeading),
        }
    }

    /// Records that a request acquired or renewed the lease. The request was sent at `begun`. Other processes see the
    /// renewal later, so for them the lease expires later.
    pub(crate) fn renew(&self, begun: Instant) {
        let until = begun + RENEW_DEADLINE;
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.gained.cancel();
    }

    /// Returns why the lease cannot be acquired or renewed at present, if a request for it has failed. A process that never
    /// acquires it never writes.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock();
        problem.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of a request for the lease. Returns whether it is news.
    fn note(&self, problem: Option<String>) -> bool {
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != problem;
        *known = problem;
        is_news
    }

    fn lose(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Takes part in the election for one lease.
pub struct LeaderElector {
    leases: Api<Lease>,
    name: String,
    identity: String,
    metrics: Metrics,
    observed: Option<ObservedLease>,
}

/// The last change of the lease that this process saw, and the time of that observation on its own clock.
struct ObservedLease {
    spec: LeaseSpec,
    at: Instant,
}

impl LeaderElector {
    /// Makes a candidate with this identity, which must be unique among the replicas.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: String,
        metrics: &Metrics,
    ) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity,
            metrics: metrics.clone(),
            observed: None,
        }
    }

    /// Waits for the lease, then sets `leadership` and renews the lease until `release`. Then releases the lease.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease could not be renewed in time.
    pub async fn run(
        mut self,
        leadership: Leadership,
        release: CancellationToken,
    ) -> Result<(), Lost> {
        info!(lease = %self.name, identity = %self.identity, "waiting for the lease");
        let changes = self.changes();
        let acquired = async {
            let mut changes = pin!(changes);
            loop {
                let begun = Instant::now();
                // If the request took long, the lease is renewed again before it is used.
                let is_held = self.try_acquire_or_renew(&leadership).await == Some(true);
                if is_held && begun.elapsed() < RENEW_DEADLINE / 2 {
                    return begun;
                }
                tokio::select! {
                    () = sleep(self.until_next_try()) => {}
                    Some(()) = changes.next() => {}
                }
            }
        };
        let Some(mut renewed) = release.run_until_cancelled(acquired).await else {
            return Ok(());
        };
        info!(lease = %self.name, "leading");
        self.metrics.leader.set(1);
        leadership.renew(renewed);
        while release.run_until_cancelled(sleep(RETRY)).await.is_some() {
            let begun = Instant::now();
            let left = RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            let renewal = timeout(left, self.try_acquire_or_renew(&leadership)).await;
            match renewal.ok().flatten() {
                Some(true) => {
                    renewed = begun;
                    leadership.renew(renewed);
                    continue;
                }
                // Another process may write now, for example because someone deleted the lease.
                Some(false) => leadership.lose(),
                None if renewed.elapsed() < RENEW_DEADLINE => continue,
                None => {}
            }
            self.metrics.leader.set(0);
            return Err(Lost(self.name));
        }
        leadership.lose();
        self.release().await;
        Ok(())
    }

    /// Returns an event for each change of the lease. A candidate then sees a renewal when it happens, so its 15 s
    /// begin at the renewal, and it sees a release at once. Without the right to watch, there are no events.
    fn changes(&self) -> impl Stream<Item = ()> + use<> {
        watch_object(self.leases.clone(), &self.name)
            .default_backoff()
            .filter_map(|version| ready(version.ok().map(drop)))
    }

    /// Returns the wait until the next try to acquire the lease. It ends with the lease, so that the end of a leader
    /// costs no additional time.
    fn until_next_try(&self) -> Duration {
        let observed = self.observed.as_ref();
        let left = observed.map(|observed| DURATION.saturating_sub(observed.at.elapsed()));
        left.filter(|left| !left.is_zero())
            .map_or(RETRY, |left| left.min(RETRY))
    }

    /// Tries to acquire or renew the lease. Returns whether this process holds it now. If not, another process holds
    /// it. Returns `None` if a request failed.
    async fn try_acquire_or_renew(&mut self, leadership: &Leadership) -> Option<bool> {
        let error = match self.acquire_or_renew().await {
            Ok(is_held) => {
                leadership.note(None);
                return Some(is_held);
            }
            Err(error) => error,
        };
        // After a conflict, another candidate was faster.
        let is_conflict = matches!(&error, kube::Error::Api(status) if status.is_conflict());
        let is_news = leadership.note((!is_conflict).then(|| error.to_string()));
        let lease = &self.name;
        match &error {
            kube::Error::Api(status) if status.is_forbidden() => {
                if is_news {
                    error!(lease, %error, "this process has no right to its lease, so it never writes");
                }
            }
            _ => warn!(lease, %error, "lease not acquired or renewed"),
        }
        None
    }

    async fn acquire_or_renew(&mut self) -> kube::Result<bool> {
        let Some(current) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            };
            let lease = Lease {
                metadata,
                spec: Some(self.claim(None)),
            };
            let created = self.leases.create(&PostParams::default(), &lease).await?;
            self.observe(created.spec.unwrap_or_default());
            return Ok(true);
        };
        let spec = current.spec.clone().unwrap_or_default();
        self.observe(spec.clone());
        if self.is_held_by_another(&spec) {
            return Ok(false);
        }
        // The request contains the resource version of `current`. It therefore fails if another candidate was faster.
        let lease = Lease {
            spec: Some(self.claim(Some(&spec))),
            ..current
        };
        let updated = self
            .leases
            .replace(&self.name, &PostParams::default(), &lease)
            .await?;
        self.observe(updated.spec.unwrap_or_default());
        Ok(true)
    }

    fn observe(&mut self, spec: LeaseSpec) {
        if self
            .observed
            .as_ref()
            .is_none_or(|observed| observed.spec != spec)
        {
            self.observed = Some(ObservedLease {
                spec,
                at: Instant::now(),
            });
        }
    }

    fn is_held_by_another(&self, spec: &LeaseSpec) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let expired = self
            .observed
            .as_ref()
            .is_some_and(|observed| observed.at.elapsed() >= DURATION);
        !holder.is_empty() && holder != self.identity && !expired
    }

    fn claim(&self, former: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(clock::now());
        let still_held =
            former.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let transitions = former.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            acquire_time: still_held
                .and_then(|spec| spec.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            lease_transitions: Some(match (former, still_held) {
                (Some(_), None) => transitions.saturating_add(1),
                _ => transitions,
            }),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease, so that another candidate can take over at once.
    async fn release(&self) {
        self.metrics.leader.set(0);
        let result = async {
            let mut lease = self.leases.get(&self.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() == Some(&self.identity) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.leases
                    .replace(&self.name, &PostParams::default(), &lease)
                    .await?;
            }
            Ok::<_, kube::Error>(())
        };
        match result.await {
            Ok(()) => info!(lease = %self.name, "lease released"),
            Err(error) => warn!(lease = %self.name, %error, "lease not released; it expires"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_that_does_not_renew_stops_writing_before_another_begins() {
        let leadership = Leadership::default();
        assert_eq!(leadership.deadline(), Err(NotLeading));
        let begun = Instant::now();
        sleep(Duration::from_secs(3)).await;
        leadership.renew(begun);
        assert_eq!(leadership.deadline(), Ok(Some(begun + RENEW_DEADLINE)));
        sleep(Duration::from_secs(7)).await;
        assert_eq!(leadership.deadline(), Err(NotLeading));
        leadership.renew(Instant::now());
        assert!(leadership.deadline().is_ok());
        leadership.lose();
        assert_eq!(leadership.deadline(), Err(NotLeading));
    }

    /// Returns the time from the last change of a lease by another process until a candidate holds the lease. `change`
    /// makes this change, between two reads of the candidate.
    async fn taken_after<F>(change: impl FnOnce(LeaderElector) -> F) -> Duration
    where
        F: Future<Output = ()>,
    {
        let server = apiserver::ApiServer::new();
        server.put(apiserver::objects::namespace("ns", "namespace-uid"));
        let metrics = Metrics::default();
        let elector = |identity: &str| {
            let identity = identity.to_owned();
            LeaderElector::new(server.client(), "ns", "lease", identity, &metrics)
        };
        let mut other = elector("other");
        assert!(other.acquire_or_renew().await.unwrap());
        let leadership = Leadership::default();
        let candidate = elector("this").run(leadership.clone(), CancellationToken::new());
        let running = tokio::spawn(candidate);
        sleep(RETRY / 2).await;
        change(other).await;
        let begun = Instant::now();
        leadership.gained().cancelled().await;
        running.abort();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nobody_renews_is_taken_when_it_ends() {
        let renew = |mut killed: LeaderElector| async move {
            assert!(killed.acquire_or_renew().await.unwrap());
        };
        let after = taken_after(renew).await;
        assert!(
            after >= DURATION && after < DURATION + RETRY / 4,
            "{after:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_taken_at_once() {
        let after = taken_after(|stopped| async move { stopped.release().await }).await;
        assert!(after < RETRY / 4, "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_without_a_right_to_its_lease_says_so() {
        let server = apiserver::ApiServer::new();
        server.put(apiserver::objects::namespace("ns", "namespace-uid"));
        let leadership = Leadership::default();
        let identity = "this".to_owned();
        let elector = LeaderElector::new(
            server.client(),
            "ns",
            "lease",
            identity,
            &Metrics::default(),
        );
        server.fail(apiserver::Fault::refuse(403).of::<Lease>());
        tokio::spawn(elector.run(leadership.clone(), CancellationToken::new()));
        sleep(3 * RETRY).await;
        assert!(leadership.problem().is_some_and(|it| it.contains("403")));
        server.heal();
        leadership.gained().cancelled().await;
        assert_eq!(leadership.problem(), None);
    }

    /// A leader stops when it reads that another process holds the lease.
    #[tokio::test(start_paused = true)]
    async fn a_leader_that_sees_another_holder_stops_at_once() {
        let server = apiserver::ApiServer::new();
        server.put(apiserver::objects::namespace("ns", "namespace-uid"));
        let leadership = Leadership::default();
        let identity = || "this".to_owned();
        let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
        let mut elector = LeaderElector::new(server.client(), "ns", "lease", identity(), &metrics);
        assert!(elector.acquire_or_renew().await.unwrap());
        let running = tokio::spawn(elector.run(leadership.clone(), CancellationToken::new()));
        let gained = timeout(DURATION, async { leadership.gained().cancelled().await });
        gained.await.unwrap();
        server.modify::<Lease>("ns", "lease", |lease| {
            lease["spec"]["holderIdentity"] = serde_json::json!("another");
        });
        let begun = Instant::now();
        assert!(running.await.unwrap().is_err());
        assert!(begun.elapsed() < 2 * RETRY, "{:?}", begun.elapsed());
        assert_eq!(leadership.deadline(), Err(NotLeading));
    }

    #[tokio::test]
    async fn a_process_that_needs_no_lease_may_always_write() {
        assert_eq!(Leadership::without_election().deadline(), Ok(None));
    }
}
