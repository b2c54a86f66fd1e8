//! When a cache is filled, among many that are.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Lists that are under way at a time.
const LISTS: usize = 32;
/// For how long a list counts: those behind an API server that does not answer wait no longer.
const TURN: Duration = Duration::from_secs(2);
/// The shortest time after which what someone waits for is tried again.
const SOON: Duration = Duration::from_secs(1);

/// Bounds how many caches are filled at a time, and lets those that someone waits for be tried again soon.
#[derive(Clone, Debug)]
pub struct Pace {
    lists: Arc<Semaphore>,
    wanted: Arc<Notify>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            lists: Arc::new(Semaphore::new(LISTS)),
            wanted: Arc::default(),
        }
    }
}

impl Pace {
    /// The pace of another cache, which is filled beside this one.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            lists: Arc::clone(&self.lists),
            wanted: Arc::default(),
        }
    }

    /// Someone waits for what cannot be listed: it is tried again within a second.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until it is this cache's turn.
    pub(super) async fn turn(&self) -> Turn {
        Turn {
            place: Arc::clone(&self.lists).acquire_owned().await.ok(),
            until: Instant::now() + TURN,
        }
    }

    /// Waits before another try, less long if someone waits for it.
    pub(super) async fn wait(&self, time: Duration) {
        let soon = time.min(SOON);
        sleep(soon).await;
        let _ = timeout(time.saturating_sub(soon), self.wanted.notified()).await;
    }
}

/// One of the lists that are under way.
pub(super) struct Turn {
    place: Option<OwnedSemaphorePermit>,
    until: Instant,
}

impl Turn {
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

    /// I-24: caches are filled a bounded number at a time.
    #[tokio::test(start_paused = true)]
    async fn lists_that_hang_hold_others_up_for_their_turn_only() {
        let pace = Pace::default();
        let mut turns = Vec::new();
        for _ in 0..LISTS {
            turns.push(pace.beside().turn().await);
        }
        let begin = Instant::now();
        let (next, ()) = tokio::join!(pace.turn(), turns[0].is_over());
        assert_eq!(begin.elapsed(), TURN);
        turns.push(next);
        turns[1].end();
        turns.push(pace.turn().await);
        assert_eq!(begin.elapsed(), TURN);
    }

    #[tokio::test(start_paused = true)]
    async fn what_someone_waits_for_is_tried_again_soon() {
        let pace = Pace::default();
        let waited = async |time| {
            let begin = Instant::now();
            pace.wait(Duration::from_millis(time)).await;
            begin.elapsed()
        };
        assert_eq!(waited(30_000).await, Duration::from_secs(30));
        pace.beside().want();
        assert_eq!(waited(30_000).await, Duration::from_secs(30));
        pace.want();
        assert_eq!(waited(30_000).await, SOON);
        assert_eq!(waited(30_000).await, Duration::from_secs(30));
        pace.want();
        assert_eq!(waited(900).await, Duration::from_millis(900));
    }
}
