//! Limits the TLS handshakes that run at a time.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{AcquireError, Notify, Semaphore, SemaphorePermit};
use tokio::time::sleep;

/// Time after which a handshake gives its turn to another one that waits. Its client needs one round trip.
const SLOW: Duration = Duration::from_millis(250);

/// The turns of handshakes. A handshake takes a turn when its first message has arrived, so that silent clients use
/// none.
#[derive(Debug)]
pub(crate) struct HandshakeTurns {
    turns: Semaphore,
    /// Number of handshakes that wait for a turn.
    waiting: AtomicUsize,
    wanted: Notify,
}

/// Counts a handshake as waiting until the value is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl HandshakeTurns {
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns: Semaphore::new(turns),
            waiting: AtomicUsize::default(),
            wanted: Notify::new(),
        }
    }

    /// Waits for a turn. While it waits, slow handshakes give their turns back.
    pub(crate) async fn take(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
        let _waiting = Waiting::new(&self.waiting);
        let mut turn = pin!(self.turns.acquire());
        loop {
            self.wanted.notify_one();
            tokio::select! {
                turn = &mut turn => return turn,
                () = sleep(SLOW) => {}
            }
        }
    }

    /// Waits until the handshake is slow and another one waits for its turn.
    pub(crate) async fn displaced(&self) {
        sleep(SLOW).await;
        loop {
            self.wanted.notified().await;
            // The notification may be old: a handshake that waited may have got its turn, or may have ended.
            let is_wanted = self.waiting.load(Ordering::Acquire) > 0;
            if is_wanted && self.turns.available_permits() == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::{pause, timeout};

    use super::*;

    #[tokio::test]
    async fn a_slow_handshake_goes_on_if_those_that_waited_are_gone() {
        pause();
        let turns = HandshakeTurns::new(1);
        let _turn = turns.take().await.unwrap();
        // The client of this handshake gives up before the other handshake is slow.
        assert!(turns.take().now_or_never().is_none());
        let displaced = timeout(10 * SLOW, turns.displaced()).await;
        assert!(displaced.is_err(), "nobody waits");

        let (taken, displaced) = tokio::join!(
            timeout(10 * SLOW, turns.take()),
            timeout(10 * SLOW, turns.displaced())
        );
        assert!(taken.is_err() && displaced.is_ok());
    }
}
