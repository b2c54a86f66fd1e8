//! When a cache is filled, among many that are.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Lists that are under way at a time.
const LISTS: usize = 32;
/// For how long a list counts: those behind an API server that does not answer wait no longer.
const TURN: Duration = Duration::from_secs(2);
/// The shortest time after which a list is tried again that someone waits for, or that may succeed now.
const SOON: Duration = Duration::from_secs(1);

/// Bounds how many caches are filled at a time, and lets those be tried again soon that someone waits for, or whose API
/// server another one has reached.
#[derive(Clone, Debug)]
pub struct ListLimiter {
    lists: Arc<Semaphore>,
    wanted: Arc<Notify>,
    /// Tells that the API server has failed and answers again.
    answers: watch::Sender<()>,
}

impl Default for ListLimiter {
    fn default() -> Self {
        Self {
            lists: Arc::new(Semaphore::new(LISTS)),
            wanted: Arc::default(),
            answers: watch::Sender::default(),
        }
    }
}

impl ListLimiter {
    /// The lists of another cache of the same API server.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            wanted: Arc::default(),
            ..self.clone()
        }
    }

    /// The lists of a cache of another API server.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        Self {
            answers: watch::Sender::default(),
            ..self.beside()
        }
    }

    /// Someone waits for what cannot be listed: it is tried again within a second.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until it is this cache's permit.
    pub(super) async fn permit(&self) -> ListPermit {
        ListPermit {
            place: Arc::clone(&self.lists).acquire_owned().await.ok(),
            until: Instant::now() + TURN,
            answers: self.answers.subscribe(),
        }
    }

    /// The API server has failed and answers again: the other caches try it soon. To the one whose permit it is that is nothing
    /// new.
    pub(super) fn answers(&self, permit: &mut ListPermit) {
        self.answers.send_replace(());
        permit.answers.mark_unchanged();
    }

    /// Waits before another try, less long if someone waits for it, or if the API server has come to answer since the permit
    /// that failed began.
    pub(super) async fn wait(&self, permit: &mut ListPermit, time: Duration) {
        let soon = time.min(SOON);
        sleep(soon).await;
        let early = async {
            tokio::select! {
                () = self.wanted.notified() => {}
                _ = permit.answers.changed() => {}
            }
        };
        let _ = timeout(time.saturating_sub(soon), early).await;
    }
}

/// One of the lists that are under way.
pub(super) struct ListPermit {
    place: Option<OwnedSemaphorePermit>,
    until: Instant,
    answers: watch::Receiver<()>,
}

impl ListPermit {
    /// Lets another one begin.
    pub(super) fn end(&mut self) {
        self.place = None;
    }

    /// Waits until the list has taken too long to be waited for, once.
    pub(super) async fn is_over(&mut self) {
        match self.place {
            Some(_) => sleep_until(self.until).await,
            None => std::future::pending().await,
        }
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
        let mut turns = Vec::new();
        for _ in 0..LISTS {
            turns.push(lists.beside().permit().await);
        }
        let begin = Instant::now();
        let (next, ()) = tokio::join!(lists.permit(), turns[0].is_over());
        assert_eq!(begin.elapsed(), TURN);
        turns.push(next);
        turns[1].end();
        turns.push(lists.permit().await);
        assert_eq!(begin.elapsed(), TURN);
    }

    #[tokio::test(start_paused = true)]
    async fn what_someone_waits_for_is_tried_again_soon() {
        let lists = ListLimiter::default();
        let waited = async |time| waited(&lists, &mut lists.permit().await, time).await;
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.beside().want();
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.want();
        assert_eq!(waited(30_000).await, SOON);
        assert_eq!(waited(30_000).await, HALF_A_MINUTE);
        lists.want();
        assert_eq!(waited(900).await, Duration::from_millis(900));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_one_cache_has_reached_is_tried_again_soon_by_the_others() {
        let lists = ListLimiter::default();
        let other = lists.beside();
        let (mut permit, mut others) = (lists.permit().await, other.permit().await);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        let elsewhere = lists.elsewhere();
        elsewhere.answers(&mut elsewhere.permit().await);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        // While this one failed. The other one knows already.
        other.answers(&mut others);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, SOON);
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
        assert_eq!(waited(&other, &mut others, 30_000).await, HALF_A_MINUTE);
        // While this one waits.
        let later = async {
            sleep(5 * SOON).await;
            other.answers(&mut others);
        };
        let (time, ()) = tokio::join!(waited(&lists, &mut permit, 30_000), later);
        assert_eq!(time, 5 * SOON);
        // What is over is nothing new to a permit that begins.
        other.answers(&mut others);
        let mut permit = lists.permit().await;
        assert_eq!(waited(&lists, &mut permit, 30_000).await, HALF_A_MINUTE);
    }

    async fn waited(lists: &ListLimiter, permit: &mut ListPermit, millis: u64) -> Duration {
        let begin = Instant::now();
        lists.wait(permit, Duration::from_millis(millis)).await;
        begin.elapsed()
    }
}
