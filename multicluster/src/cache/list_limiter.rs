//! Limits concurrent lists, and schedules their retries.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::sync_state::RetryWait;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Maximum number of concurrent lists. When the process starts with thousands of projects, more concurrent lists would
/// not be faster, because they would share the same CPU time.
pub(super) const LISTS: usize = 32;
/// Longest time that a list holds its slot. An API server that does not answer delays the lists of other API servers
/// for at most this time.
const SLOT_MAX: Duration = Duration::from_secs(2);
/// Longest time that a list of a slow cache holds its slot. A cache that hangs uses a slot about once a minute: its
/// request hangs for 30 s, and the wait before the retry is about as long. So 32 slots are enough for 7,000 caches that
/// hang, and a slow cache whose API server has recovered gets its slot soon.
const SLOW_SLOT_MAX: Duration = Duration::from_millis(250);
/// Shortest wait before a failed list is retried early. A list is retried early if a caller needs it, or if its API
/// server has recovered.
const SOON: Duration = Duration::from_secs(1);

/// Limits concurrent lists. Retries a failed list early if a caller waits for the list, or if another cache has reached
/// the same API server.
#[derive(Clone, Debug)]
pub struct ListLimiter {
    lists: Arc<Semaphore>,
    /// Slots of caches whose last request took too long. Without them, many API servers that hang would use all slots
    /// for most of the time.
    slow: Arc<Semaphore>,
    retry_requested: Arc<Notify>,
    /// Changes when the API server has recovered from a failure.
    recovered: watch::Sender<()>,
    /// Changes when a cache has found that the API server was restored from a snapshot.
    restored: watch::Sender<()>,
}

impl Default for ListLimiter {
    fn default() -> Self {
        Self {
            lists: Arc::new(Semaphore::new(LISTS)),
            slow: Arc::new(Semaphore::new(LISTS)),
            retry_requested: Arc::default(),
            recovered: watch::Sender::default(),
            restored: watch::Sender::default(),
        }
    }
}

impl ListLimiter {
    /// Returns the limiter for another cache of the same API server.
    #[must_use]
    pub fn for_another_cache(&self) -> Self {
        Self {
            retry_requested: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the limiter for a cache of another API server.
    #[must_use]
    pub fn for_another_server(&self) -> Self {
        Self {
            recovered: watch::Sender::default(),
            restored: watch::Sender::default(),
            ..self.for_another_cache()
        }
    }

    /// Requests that a failed list is retried within one second, because a caller waits for the list.
    pub fn retry_soon(&self) {
        self.retry_requested.notify_one();
    }

    /// Waits for a free list slot.
    pub(super) async fn permit(&self) -> ListPermit {
        self.permit_of(&self.lists, SLOT_MAX).await
    }

    /// Waits for a free list slot of a cache that had another permit before.
    pub(super) async fn permit_after(&self, former: &ListPermit) -> ListPermit {
        let (slots, longest) = match former.was_too_long {
            true => (&self.slow, SLOW_SLOT_MAX),
            false => (&self.lists, SLOT_MAX),
        };
        self.permit_of(slots, longest).await
    }

    async fn permit_of(&self, slots: &Arc<Semaphore>, longest: Duration) -> ListPermit {
        ListPermit {
            slot: Arc::clone(slots).acquire_owned().await.ok(),
            until: Instant::now() + longest,
            was_too_long: false,
            recovered: self.recovered.subscribe(),
        }
    }

    /// Records that the API server has recovered. The other caches of this API server then retry soon. The cache with
    /// this permit does not get the signal, because its list has succeeded.
    pub(super) fn note_recovered(&self, permit: &mut ListPermit) {
        self.recovered.send_replace(());
        permit.recovered.mark_unchanged();
    }

    /// Records that the API server was restored from a snapshot. The other caches of this API server then list again.
    /// If another cache has already reported the restore to the cache of this receiver, the others know it, so it is
    /// not reported again.
    pub(super) fn note_restored(&self, restored: &mut watch::Receiver<()>) {
        self.restored.send_if_modified(|()| {
            let is_reported = restored.has_changed().unwrap_or_default();
            !is_reported
        });
        restored.mark_unchanged();
    }

    /// Returns a receiver that changes when another cache has found that the API server was restored.
    pub(super) fn restored(&self) -> watch::Receiver<()> {
        self.restored.subscribe()
    }

    /// Waits before a retry. The wait is shorter if a caller requests the list, or if the API server has recovered
    /// since the failed list got its permit. It is not shorter than the Retry-After of the API server. A cache whose
    /// API server has recovered is no longer slow. The request of a caller does not prove this: callers can request
    /// caches of API servers that hang again and again.
    pub(super) async fn wait(&self, permit: &mut ListPermit, wait: RetryWait) {
        let RetryWait { least, whole: time } = wait;
        let soon = time.min(SOON.max(least));
        sleep(soon).await;
        let mut recovered = permit.recovered.clone();
        let early = async {
            tokio::select! {
                () = self.retry_requested.notified() => {}
                _ = recovered.changed() => {}
            }
        };
        let _ = timeout(time.saturating_sub(soon), early).await;
        if permit.recovered.has_changed().unwrap_or_default() {
            permit.recovered.mark_unchanged();
            permit.was_too_long = false;
        }
    }
}

/// The slot of a running list.
pub(super) struct ListPermit {
    slot: Option<OwnedSemaphorePermit>,
    until: Instant,
    /// Whether a request has held the slot for too long.
    was_too_long: bool,
    recovered: watch::Receiver<()>,
}

impl ListPermit {
    /// Releases the slot for another list.
    pub(super) fn end(&mut self) {
        self.slot = None;
    }

    /// Releases the slot, because the API server has answered. The cache is no longer slow.
    pub(super) fn succeeded(&mut self) {
        self.end();
        self.was_too_long = false;
    }

    /// Runs a request. The slot is released if the request takes too long.
    pub(super) async fn hold<T>(&mut self, request: impl Future<Output = T>) -> T {
        let mut request = pin!(request);
        loop {
            tokio::select! {
                result = request.as_mut() => return result,
                () = self.is_over() => {}
            }
        }
    }

    /// Waits until the list has held its slot for too long, then releases the slot.
    async fn is_over(&mut self) {
        match self.slot {
            Some(_) => sleep_until(self.until).await,
            None => std::future::pending().await,
        }
        self.was_too_long = true;
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    /// I-24: caches are filled a bounded number at a time.
    #[tokio::test(start_paused = true)]
    async fn lists_that_hang_hold_others_up_for_their_turn_only() {
        let lists = ListLimiter::default();
        let mut permits = Vec::new();
        for _ in 0..LISTS {
            permits.push(lists.for_another_cache().permit().await);
        }
        let begin = Instant::now();
        // All slots are taken until the first list has held its slot for too long.
        assert!(timeout(SLOT_MAX / 2, lists.permit()).await.is_err());
        let (next, ()) = tokio::join!(lists.permit(), permits[0].is_over());
        assert_eq!(begin.elapsed(), SLOT_MAX);
        permits.push(next);
        permits[1].end();
        permits.push(lists.permit().await);
        assert_eq!(begin.elapsed(), SLOT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn caches_that_hang_again_and_again_take_no_slots_of_others() {
        let lists = ListLimiter::default();
        for _ in 0..100 * LISTS {
            tokio::spawn(hang_again_and_again(lists.for_another_server()));
        }
        // Each of them has hung once.
        sleep(SLOT_MAX * 100 + HALF_A_MINUTE).await;
        let begin = Instant::now();
        let mut permit = lists.permit().await;
        permit.hold(async {}).await;
        let next = lists.permit_after(&permit).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        drop(next);
    }

    async fn hang_again_and_again(lists: ListLimiter) {
        let mut permit = lists.permit().await;
        loop {
            let hung = timeout(HALF_A_MINUTE, permit.hold(std::future::pending::<()>()));
            assert!(hung.await.is_err());
            sleep(HALF_A_MINUTE).await;
            permit = lists.permit_after(&permit).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_cache_gets_a_slot_soon_although_thousands_hang() {
        let lists = ListLimiter::default();
        for _ in 0..200 * LISTS {
            tokio::spawn(hang_again_and_again(lists.for_another_server()));
        }
        // Each of them has hung at least twice.
        sleep(SLOT_MAX * 200 + 4 * HALF_A_MINUTE).await;
        for _ in 0..100 {
            let mut permit = lists.permit().await;
            permit.is_over().await;
            let begin = Instant::now();
            drop(lists.permit_after(&permit).await);
            let elapsed = begin.elapsed();
            assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_cache_of_a_recovered_api_server_does_not_wait_for_caches_that_hang() {
        let lists = ListLimiter::default();
        let mut permit = lists.permit().await;
        permit.is_over().await;
        let mut slow = Vec::new();
        for _ in 0..LISTS {
            slow.push(lists.permit_after(&permit).await);
        }
        // A caller waits for the list. This does not prove that the API server answers.
        lists.retry_soon();
        assert_eq!(waited(&lists, &mut permit, 30_000).await, SOON);
        let next = timeout(HALF_A_MINUTE, lists.permit_after(&permit));
        assert!(next.await.is_err());
        let other = lists.for_another_cache();
        other.note_recovered(&mut other.permit().await);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, SOON);
        let begin = Instant::now();
        let next = timeout(HALF_A_MINUTE, lists.permit_after(&permit));
        assert!(next.await.is_ok());
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_a_caller_needs_is_retried_soon() {
        let lists = ListLimiter::default();
        let waited = async |time| waited(&lists, &mut lists.permit().await, time).await;
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.for_another_cache().retry_soon();
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.retry_soon();
        assert_eq!(waited(30_000).await, SOON);
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.retry_soon();
        assert_eq!(waited(900).await, Duration::from_millis(900));
        // The Retry-After of the API server is respected.
        lists.retry_soon();
        let begin = Instant::now();
        let wait = RetryWait {
            least: 7 * SOON,
            whole: HALF_A_MINUTE,
        };
        lists.wait(&mut lists.permit().await, wait).await;
        assert_eq!(begin.elapsed(), 7 * SOON);
    }

    #[tokio::test(start_paused = true)]
    async fn caches_of_a_recovered_api_server_are_retried_soon() {
        let lists = ListLimiter::default();
        let other = lists.for_another_cache();
        let (mut permit, mut others) = (lists.permit().await, other.permit().await);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        let elsewhere = lists.for_another_server();
        elsewhere.note_recovered(&mut elsewhere.permit().await);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        // The API server recovers while the list of `permit` fails.
        other.note_recovered(&mut others);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, SOON);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        assert_eq!(waited(&other, &mut others, 30_000).await, HALF_A_MINUTE);
        // The API server recovers while the cache of `permit` waits.
        let later = async {
            sleep(5 * SOON).await;
            other.note_recovered(&mut others);
        };
        let (time, ()) = tokio::join!(waited(&lists, &mut permit, 30_000), later);
        assert_eq!(time, 5 * SOON);
        // A permit that begins later is not affected.
        other.note_recovered(&mut others);
        let mut permit = lists.permit().await;
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
    }

    async fn waited(lists: &ListLimiter, permit: &mut ListPermit, millis: u64) -> Duration {
        let begin = Instant::now();
        let wait = RetryWait {
            least: Duration::ZERO,
            whole: Duration::from_millis(millis),
        };
        lists.wait(permit, wait).await;
        begin.elapsed()
    }
}
