//! The work queue: every watch of a controller adds keys, workers reconcile them.
//!
//! A key waits at most once, is never reconciled twice at a time, and backs off by itself when it fails. Keys belong to
//! tenants, such as the objects of one project, which take turns: one that has much to do, or whose API server is slow, does
//! not delay the others.

mod context;
mod failures;
mod state;
mod tenant;
mod timers;
mod write_budget;

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::clock::Clock;
use crate::metrics::{ControllerLabels, Metrics, OutageLabels, ReconcileLabels, set};
pub use context::ReconcileContext;
use state::{Counts, State};

/// Messages that are taken in before keys are given out again.
const MESSAGES: usize = 256;

/// What is reconciled, as a rule the name of an object.
pub trait Key: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// Names what the key has in common with others that may be slow, or fail, together with it.
    type Tenant: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// The tenant of the key. It is always the same.
    fn tenant(&self) -> &Self::Tenant;
}

/// How many reconciliations of one controller may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all tenants together.
    pub concurrency: usize,
    /// Of one tenant.
    pub per_tenant: usize,
    /// Of all tenants whose API servers cannot be reached.
    pub probing: usize,
    /// How many of one tenant may write in a second, on and on.
    pub writing_per_second: u32,
    /// How many of one tenant may write at once, after it has not for a while.
    pub writing_at_once: u32,
}

impl Limits {
    /// A reconciliation mostly waits for answers, so that 64 are no load for this process. Four at a time are no load for
    /// one API server either, and a small part of the places, should it hang. However many hang, they have an eighth of the
    /// places once that is known.
    ///
    /// Reconciliations that write cost most: ours and the API server's processor time. A tenant that has thousands of them to
    /// do would take all there is, and all others be late.
    pub const DEFAULT: Self = Self {
        concurrency: 64,
        per_tenant: 4,
        probing: 8,
        writing_per_second: 200,
        writing_at_once: 500,
    };
}

/// Why a reconciliation failed.
pub trait Failure: Display {
    /// What the failure says of the whole tenant of its key, if it does.
    fn outage(&self) -> Option<Outage>;

    /// Returns the longest time after which an API server asked to be tried again, if one did.
    fn retry_after(&self) -> Option<Duration>;
}

/// Why no key of a tenant would fare better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The API server cannot be reached, or cannot answer. One key at a time is tried, with growing waits, until one finds it.
    Unreachable,
    /// The API server refuses writes of this kind until someone allows them again. Other keys may have other writes to do and
    /// go on; this one is tried again by the resync, by an event, or by [`Queue::release`].
    Suspended,
}

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing to do until something changes.
    Settled,
    /// Something is pending that no watch may tell of: look again after this time.
    Again(Duration),
    /// The object does not exist, or is not ours to work on: the key is forgotten, and not looked at again by itself.
    Gone,
}

/// Where watches add keys. Cheap to clone.
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

impl<K: Key> Queue<K> {
    /// A queue and the end at which its keys are worked off. `controller` names it in logs and metrics.
    pub fn new(controller: &'static str, metrics: &Metrics) -> (Self, Workers<K>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (
            Self { sender },
            Workers {
                controller,
                metrics: metrics.clone(),
                receiver,
            },
        )
    }

    /// Asks for a reconciliation of this key, as soon as it is the turn of its tenant.
    pub fn add(&self, key: K) {
        self.send(Message::Add(key, Instant::now()));
    }

    /// Forgets all keys of a tenant that have been added so far: it is not worked on any more. What is under way ends, and
    /// has no consequences here.
    pub fn forget(&self, tenant: &K::Tenant) {
        self.send(Message::Forget(tenant.clone()));
    }

    /// Tries the keys of a tenant again that wait because it was in [`Outage`].
    pub fn release(&self, tenant: &K::Tenant) {
        self.send(Message::Release(tenant.clone()));
    }

    fn send(&self, message: Message<K>) {
        // Without a receiver the process is stopping.
        let _ = self.sender.send(message);
    }
}

/// Works off the keys of a [`Queue`].
#[derive(Debug)]
pub struct Workers<K: Key> {
    controller: &'static str,
    metrics: Metrics,
    receiver: UnboundedReceiver<Message<K>>,
}

impl<K: Key> Workers<K> {
    /// Reconciles keys, as many at a time as the limits allow, until `stop`; reconciliations that have begun are finished.
    /// No key is worked off before `may_write`, but keys gather from the start.
    ///
    /// # Errors
    ///
    /// When a reconciliation panics.
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
        let mut state = State::<K>::new(self.controller, limits);
        let mut running = JoinSet::new();
        let mut messages = Vec::new();
        loop {
            state.expire(Instant::now());
            while may_write.is_cancelled() && running.len() < limits.concurrency {
                let Some((key, since)) = state.take() else {
                    break;
                };
                let span = info_span!("reconcile", controller = self.controller, ?key);
                let context = Arc::new(ReconcileContext::new(clock, since));
                let work = reconcile(K::clone(&key), Arc::clone(&context));
                let begin = Instant::now();
                running.spawn(async move { (key, context, begin, work.await) }.instrument(span));
            }
            self.show(state.counts());
            let timer = state.next_timer();
            tokio::select! {
                () = stop.cancelled() => break,
                () = may_write.cancelled(), if !may_write.is_cancelled() => {}
                1.. = self.receiver.recv_many(&mut messages, MESSAGES) => {
                    for message in messages.drain(..) {
                        match message {
                            Message::Add(key, at) => state.add(key, at),
                            Message::Forget(tenant) => state.forget(&tenant),
                            Message::Release(tenant) => state.release(&tenant),
                        }
                    }
                }
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {}
                Some(finished) = running.join_next() => {
                    let (key, context, begin, result) = finished?;
                    self.observe(begin, &result);
                    state.finished(&key, context.has_written(), &result);
                    if let Some(wait) = result.as_ref().err().and_then(Failure::retry_after) {
                        state.defer(key.tenant(), wait);
                    }
                }
            }
        }
        while running.join_next().await.transpose()?.is_some() {}
        Ok(())
    }

    fn show(&self, counts: Counts) {
        let controller = self.controller;
        let depth = &self.metrics.queue_depth;
        set(depth, &ControllerLabels { controller }, counts.ready);
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
            Err(_) => "error",
        };
        self.metrics
            .reconciles
            .get_or_create(&ReconcileLabels { controller, result })
            .inc();
    }
}

#[cfg(test)]
mod tests;
