//! Limits the TLS handshakes that run at a time.

use std::pin::pin;
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
    wanted: Notify,
}

impl HandshakeTurns {
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns: Semaphore::new(turns),
            wanted: Notify::new(),
        }
    }

    /// Waits for a turn. While it waits, slow handshakes give their turns back.
    pub(crate) async fn take(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
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
            if self.turns.available_permits() == 0 {
                return;
            }
        }
    }
}
