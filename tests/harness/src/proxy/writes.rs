//! Counts writes, and can stop all writes after any write.

use hyper::Response;
use kube::client::Body;
use tokio::sync::{Mutex, watch};

use crate::status_error::StatusError;

#[derive(Clone, Copy, Debug, Default)]
struct WriteState {
    made: usize,
    stop_at: Option<usize>,
}

impl WriteState {
    fn is_stopped(&self) -> bool {
        self.stop_at.is_some_and(|at| self.made >= at)
    }
}

/// Counts the successful writes through all proxies that share this value. Only one write is made at a time. It is
/// therefore known which writes were made before a stop.
#[derive(Debug, Default)]
pub struct WriteCounter {
    turn: Mutex<()>,
    state: watch::Sender<WriteState>,
}

impl WriteCounter {
    /// Returns the number of writes so far.
    pub fn made(&self) -> usize {
        self.state.borrow().made
    }

    /// Lets this number of further writes pass, then stops all writes. The last of these writes gets no answer. Later
    /// writes do not reach an API server.
    pub fn stop_after(&self, more: usize) {
        self.state
            .send_modify(|state| state.stop_at = Some(state.made + more));
    }

    /// Waits until the writes are stopped.
    pub async fn stopped(&self) {
        // An error is impossible, because the sender is part of this value.
        let _ = self
            .state
            .subscribe()
            .wait_for(WriteState::is_stopped)
            .await;
    }

    /// Waits until the count of [`made`](Self::made) reaches this value.
    pub async fn reached(&self, count: usize) {
        // An error is impossible, because the sender is part of this value.
        let made = |state: &WriteState| state.made >= count;
        let _ = self.state.subscribe().wait_for(made).await;
    }

    /// Lets new writes pass again. Writes that have waited since the stop are not made, and their connections break.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.stop_at = None);
    }

    /// Makes the write when no other write is being made. Returns the answer. If the writes are stopped, waits
    /// until [`resume`](Self::resume), and then returns `None`.
    pub(super) async fn count(
        &self,
        write: impl Future<Output = Result<Response<Body>, StatusError>>,
    ) -> Option<Result<Response<Body>, StatusError>> {
        let turn = self.turn.lock().await;
        if self.state.borrow().is_stopped() {
            drop(turn);
            return self.hold().await;
        }
        let answer = write.await;
        let taken = |answer: &Response<Body>| answer.status().is_success();
        if answer.as_ref().is_ok_and(taken) {
            self.state.send_modify(|state| state.made += 1);
            if self.state.borrow().is_stopped() {
                drop(turn);
                return self.hold().await;
            }
        }
        Some(answer)
    }

    /// Waits until writes pass again, and returns `None`.
    async fn hold<T>(&self) -> Option<T> {
        // An error is impossible, because the sender is part of this value.
        let is_resumed = |state: &WriteState| !state.is_stopped();
        let _ = self.state.subscribe().wait_for(is_resumed).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::pin::pin;

    use futures::poll;

    use super::*;

    fn taken() -> Ready<Result<Response<Body>, StatusError>> {
        ready(Ok(Response::new(Body::empty())))
    }

    #[tokio::test]
    async fn no_write_passes_after_the_last_one() {
        let writes = WriteCounter::default();
        assert!(writes.count(taken()).await.is_some());
        writes.stop_after(2);
        assert!(writes.count(taken()).await.is_some());
        // A refused write changes nothing, so it is not counted.
        let refused = async { Err(StatusError::conflict()) };
        assert!(writes.count(refused).await.is_some());
        let mut last = pin!(writes.count(taken()));
        assert!(poll!(&mut last).is_pending());
        writes.stopped().await;
        let mut another = pin!(writes.count(async { panic!("a write was made after the stop") }));
        assert!(poll!(&mut another).is_pending());
        assert_eq!(writes.made(), 3);
        writes.resume();
        assert!(last.await.is_none() && another.await.is_none());
        assert!(writes.count(taken()).await.is_some());
        assert_eq!(writes.made(), 4);
    }
}
