//! The work queue. The watches of a controller add keys, and workers reconcile the keys.
//!
//! A key waits in the queue at most once. It is never reconciled twice at the same time. A key that fails is retried
//! with a backoff of its own, unless its whole tenant has an outage. Each key belongs to a tenant. For example, the
//! keys of all objects of one project belong to one tenant. Tenants take turns, so a tenant with much work or with a
//! slow API server does not delay the others.

mod context;
mod failures;
mod key;
mod limits;
mod outcome;
mod scheduler;
mod tenant;
mod timers;
mod write_budget;

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::clock::Clock;
use crate::metrics::{ControllerLabels, Metrics, OutageLabels, ReconcileLabels, set};
pub use context::ReconcileContext;
#[cfg(test)]
use context::Writes;
pub use key::Key;
pub use limits::Limits;
pub use outcome::{Failure, Outage, Outcome};
use scheduler::{QueueCounts, Scheduler};

/// Maximum number of messages that the loop reads in one turn before it gives keys to workers. The number is small, so
/// that workers do not wait. It is large enough that a burst of events takes only a few turns.
const MESSAGES: usize = 256;

/// The sending end of a work queue. Watches add keys through it. Cheap to clone.
#[derive(Debug)]
pub struct Queue<K: Key> {
    sender: UnboundedSender<Message<K>>,
}

#[derive(Debug)]
enum Message<K: Key> {
    Add(K, Instant),
    Forget(K::Tenant),
    Release(K::Tenant),
}

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

/// Label value of the result of a reconciliation that failed.
const ERROR: &str = "error";

impl<K: Key> Queue<K> {
    /// Makes a queue, and the workers that reconcile its keys. `controller` is the name of the queue in logs and
    /// metrics.
    pub fn new(controller: &'static str, metrics: &Metrics) -> (Self, Workers<K>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        // An alert sees the first failure only if the counter was 0 before.
        for result in ["settled", ERROR] {
            let labels = ReconcileLabels { controller, result };
            drop(metrics.reconciles.get_or_create(&labels));
        }
        (
            Self { sender },
            Workers {
                controller,
                metrics: metrics.clone(),
                receiver,
            },
        )
    }

    /// Adds a key. The key is reconciled when it is its tenant's turn. Until the workers may write, the key is dropped.
    pub fn add(&self, key: K) {
        self.send(Message::Add(key, Instant::now()));
    }

    /// Forgets all keys of a tenant that have been added so far, because the tenant is gone. Running reconciliations
    /// finish, but their results are ignored.
    pub fn forget(&self, tenant: &K::Tenant) {
        self.send(Message::Forget(tenant.clone()));
    }

    /// Immediately retries the keys of a tenant that wait because of an [`Outage`].
    pub fn release(&self, tenant: &K::Tenant) {
        self.send(Message::Release(tenant.clone()));
    }

    fn send(&self, message: Message<K>) {
        // The receiver is dropped only when the process stops.
        let _ = self.sender.send(message);
    }
}

/// Reconciles the keys of a [`Queue`].
#[derive(Debug)]
pub struct Workers<K: Key> {
    controller: &'static str,
    metrics: Metrics,
    receiver: UnboundedReceiver<Message<K>>,
}

impl<K: Key> Workers<K> {
    /// Reconciles keys until `stop`. The number of concurrent reconciliations is limited by the limits of the queue.
    /// Keys that were added before `may_write` are dropped, so that a process that may not write for months keeps no
    /// keys of deleted objects. Once it may write, the caller adds the keys of all objects. After `stop`, running
    /// reconciliations finish.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if a reconciliation panics.
    pub async fn run<F, Fut, E>(
        mut self,
        limits: Limits,
        clock: Clock,
        may_write: CancellationToken,
        stop: CancellationToken,
        reconcile: F,
    ) -> Result<(), JoinError>
    where
        F: Fn(K, Arc<ReconcileContext>) -> Fut,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Failure + Send + 'static,
    {
        let mut scheduler = Scheduler::<K>::new(self.controller, limits);
        let mut running = JoinSet::new();
        let mut messages = Vec::new();
        loop {
            scheduler.expire(Instant::now());
            while let Some((key, since)) = scheduler.take() {
                let span = info_span!("reconcile", controller = self.controller, ?key);
                let context = Arc::new(ReconcileContext::new(clock, since));
                let work = reconcile(K::clone(&key), Arc::clone(&context));
                let begin = Instant::now();
                running.spawn(async move { (key, context, begin, work.await) }.instrument(span));
            }
            self.show(scheduler.counts(), scheduler.keys());
            let timer = scheduler.next_timer();
            tokio::select! {
                () = stop.cancelled() => break,
                1.. = self.receiver.recv_many(&mut messages, MESSAGES) => {
                    for message in messages.drain(..) {
                        match message {
                            Message::Add(key, at) if may_write.is_cancelled() => {
                                scheduler.add(key, at);
                            }
                            Message::Add(..) => {}
                            Message::Forget(tenant) => scheduler.forget(&tenant),
                            Message::Release(tenant) => scheduler.release(&tenant),
                        }
                    }
                }
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {}
                Some(finished) = running.join_next() => {
                    let (key, context, begin, result) = finished?;
                    self.observe(begin, &result);
                    scheduler.finished(&key, context.writes(), &result);
                }
            }
        }
        while running.join_next().await.transpose()?.is_some() {}
        Ok(())
    }

    fn show(&self, counts: QueueCounts, keys: usize) {
        let controller = self.controller;
        let depth = &self.metrics.queue_depth;
        set(depth, &ControllerLabels { controller }, counts.ready);
        let all = &self.metrics.queue_keys;
        set(all, &ControllerLabels { controller }, keys);
        for (outage, tenants) in [
            ("unreachable", counts.unreachable),
            ("suspended", counts.suspended),
            ("busy", counts.busy),
        ] {
            let labels = OutageLabels {
                controller,
                trouble: outage,
            };
            set(&self.metrics.queue_groups_in_trouble, &labels, tenants);
        }
    }

    fn observe<E>(&self, begin: Instant, result: &Result<Outcome, E>) {
        let controller = self.controller;
        let seconds = begin.elapsed().as_secs_f64();
        self.metrics
            .reconcile_seconds
            .get_or_create(&ControllerLabels { controller })
            .observe(seconds);
        let result = match result {
            Ok(Outcome::Settled) => "settled",
            Ok(Outcome::Again(_)) => "again",
            Ok(Outcome::Gone) => "gone",
            Err(_) => ERROR,
        };
        self.metrics
            .reconciles
            .get_or_create(&ReconcileLabels { controller, result })
            .inc();
    }
}

#[cfg(test)]
mod tests;
