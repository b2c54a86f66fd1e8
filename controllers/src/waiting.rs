//! The Instances that wait, for a metric.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use jiff::Timestamp;
use multicluster::Metrics;

use crate::lock::lock;

/// Since when each Instance waits.
#[derive(Debug)]
pub(crate) struct WaitingInstances<K> {
    since: Mutex<HashMap<K, Timestamp>>,
    metrics: Metrics,
    /// Records since when the Instance waits that waits longest.
    record: fn(&Metrics, Option<Timestamp>),
}

impl<K: Eq + Hash + Clone> WaitingInstances<K> {
    pub(crate) fn new(metrics: &Metrics, record: fn(&Metrics, Option<Timestamp>)) -> Self {
        Self {
            since: Mutex::default(),
            metrics: metrics.clone(),
            record,
        }
    }

    /// Records since when an Instance waits. `None` means that it does not wait.
    pub(crate) fn note(&self, key: &K, since: Option<Timestamp>) {
        let mut all = lock(&self.since);
        match since {
            Some(since) => drop(all.insert(key.clone(), since)),
            None => drop(all.remove(key)),
        }
        (self.record)(&self.metrics, all.values().min().copied());
    }

    /// Returns whether an Instance with such a key waits.
    pub(crate) fn has_any(&self, is_wanted: impl Fn(&K) -> bool) -> bool {
        lock(&self.since).keys().any(is_wanted)
    }

    /// Forgets an Instance that is gone.
    pub(crate) fn forget(&self, key: &K) {
        self.note(key, None);
    }
}
