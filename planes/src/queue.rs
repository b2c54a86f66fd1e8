//! The work queue: every watch of a controller adds keys, workers reconcile them.
//!
//! A key waits at most once, is never reconciled twice at a time, and backs off by itself when it fails.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::time::{DelayQueue, delay_queue};
use tracing::{Instrument, debug, info_span, warn};

use crate::metrics::{ControllerLabels, Metrics, ReconcileLabels};

/// Wait after the first failure; it doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// Longest wait after a failure.
const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// How long a settled key rests before it is looked at again without an event: the net below the watches.
const RESYNC: Duration = Duration::from_mins(10);

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing to do until something changes.
    Settled,
    /// Something is pending that no watch may tell of: look again after this time.
    Again(Duration),
    /// The object does not exist; the key is forgotten.
    Gone,
}

/// Where watches add keys. Cheap to clone.
#[derive(Debug)]
pub struct Queue<K> {
    sender: UnboundedSender<K>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

impl<K> Queue<K> {
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

    /// Asks for a reconciliation of this key, as soon as a worker is free.
    pub fn add(&self, key: K) {
        // Without a receiver the process is stopping.
        let _ = self.sender.send(key);
    }
}

/// Works off the keys of a [`Queue`].
#[derive(Debug)]
pub struct Workers<K> {
    controller: &'static str,
    metrics: Metrics,
    receiver: UnboundedReceiver<K>,
}

impl<K> Workers<K>
where
    K: Clone + Debug + Eq + Hash + Send + Sync + 'static,
{
    /// Reconciles keys, `concurrency` at a time, until `stop`; reconciliations that have begun are finished. No key is
    /// worked off before `may_write`, but keys gather from the start.
    ///
    /// # Errors
    ///
    /// When a reconciliation panics.
    pub async fn run<F, Fut, E>(
        mut self,
        concurrency: usize,
        may_write: CancellationToken,
        stop: CancellationToken,
        reconcile: F,
    ) -> Result<(), JoinError>
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let mut state = State::<K>::default();
        let mut running = JoinSet::new();
        loop {
            while may_write.is_cancelled() && running.len() < concurrency {
                let Some(key) = state.take() else { break };
                let span = info_span!("reconcile", controller = self.controller, ?key);
                let work = reconcile(key.clone());
                let begin = Instant::now();
                running.spawn(async move { (key, begin, work.await) }.instrument(span));
            }
            self.show_depth(&state);
            tokio::select! {
                () = stop.cancelled() => break,
                () = may_write.cancelled(), if !may_write.is_cancelled() => {}
                Some(key) = self.receiver.recv() => state.add(key),
                Some(expired) = futures::StreamExt::next(&mut state.waiting), if !state.waiting.is_empty() => {
                    state.expired(expired.into_inner());
                }
                Some(finished) = running.join_next() => {
                    let (key, begin, result) = finished?;
                    self.observe(begin, &result);
                    state.finished(self.controller, key, result);
                }
            }
        }
        while running.join_next().await.transpose()?.is_some() {}
        Ok(())
    }

    fn show_depth(&self, state: &State<K>) {
        let labels = ControllerLabels {
            controller: self.controller,
        };
        let depth = i64::try_from(state.ready.len()).unwrap_or(i64::MAX);
        self.metrics.queue_depth.get_or_create(&labels).set(depth);
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

/// Where each key is: ready, being worked off, or waiting for its time.
struct State<K> {
    ready: VecDeque<K>,
    /// The keys in `ready`.
    is_ready: HashSet<K>,
    /// Being worked off; the value says whether the key was added meanwhile.
    running: HashMap<K, bool>,
    waiting: DelayQueue<K>,
    waits: HashMap<K, delay_queue::Key>,
    failures: HashMap<K, Failures>,
}

struct Failures {
    count: u32,
    /// The failure that was reported last.
    reported: Option<Box<str>>,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            running: HashMap::new(),
            waiting: DelayQueue::new(),
            waits: HashMap::new(),
            failures: HashMap::new(),
        }
    }
}

impl<K: Clone + Debug + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
        } else if self.is_ready.insert(key.clone()) {
            if let Some(wait) = self.waits.remove(&key) {
                self.waiting.remove(&wait);
            }
            self.ready.push_back(key);
        }
    }

    fn expired(&mut self, key: K) {
        self.waits.remove(&key);
        self.add(key);
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.is_ready.remove(&key);
        self.running.insert(key.clone(), false);
        Some(key)
    }

    fn finished<E: Display>(&mut self, controller: &str, key: K, result: Result<Outcome, E>) {
        let added_meanwhile = self.running.remove(&key).unwrap_or_default();
        let wait = match result {
            Ok(outcome) => {
                self.failures.remove(&key);
                match outcome {
                    Outcome::Settled => Some(RESYNC),
                    Outcome::Again(after) => Some(after),
                    Outcome::Gone => None,
                }
            }
            Err(error) => Some(self.failed(controller, &key, &error.to_string())),
        };
        if added_meanwhile {
            self.add(key);
        } else if let Some(wait) = wait {
            let entry = self.waiting.insert(key.clone(), wait);
            self.waits.insert(key, entry);
        }
    }

    /// The time to wait after this failure. A first one is often only that someone was faster; from the second in a row
    /// on, each different failure of a key is reported once.
    fn failed(&mut self, controller: &str, key: &K, error: &str) -> Duration {
        let (count, reported) = match self.failures.remove(key) {
            Some(failures) => (failures.count + 1, failures.reported),
            None => (1, None),
        };
        let wait = BACKOFF_MAX.min(BACKOFF_MIN.saturating_mul(1 << (count - 1).min(16)));
        let reported = match reported {
            Some(reported) if *reported == *error => Some(reported),
            former if count == 1 => {
                debug!(
                    controller,
                    ?key,
                    error,
                    "reconciliation failed; it is tried again"
                );
                former
            }
            _ => {
                warn!(
                    controller,
                    ?key,
                    error,
                    "reconciliation failed again; it is tried again"
                );
                Some(error.into())
            }
        };
        self.failures
            .insert(key.clone(), Failures { count, reported });
        wait
    }
}

#[cfg(test)]
mod tests;
