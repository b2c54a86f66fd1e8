//! The Instances that wait, for a metric.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use multicluster::Metrics;

use crate::lock::lock;

/// Since when each Instance waits. The metric is as old as the last reconciliation of an Instance.
#[derive(Debug)]
pub(crate) struct WaitingInstances<K> {
    since: Mutex<HashMap<K, Timestamp>>,
    metrics: Metrics,
    /// Records how long the Instance that waits longest has waited.
    record: fn(&Metrics, Duration),
}

impl<K: Eq + Hash + Clone> WaitingInstances<K> {
    pub(crate) fn new(metrics: &Metrics, record: fn(&Metrics, Duration)) -> Self {
        Self {
            since: Mutex::default(),
            metrics: metrics.clone(),
            record,
        }
    }

    /// Records since when an Instance waits. `None` means that it does not wait.
    pub(crate) fn note(&self, key: &K, since: Option<Timestamp>, now: Timestamp) {
        let mut all = lock(&self.since);
        match since {
            Some(since) => drop(all.insert(key.clone(), since)),
            None => drop(all.remove(key)),
        }
        let longest = all.values().map(|since| now.duration_since(*since)).max();
        let longest = longest.and_then(|longest| Duration::try_from(longest).ok());
        (self.record)(&self.metrics, longest.unwrap_or_default());
    }

    /// Returns whether an Instance with such a key waits.
    pub(crate) fn has_any(&self, is_wanted: impl Fn(&K) -> bool) -> bool {
        lock(&self.since).keys().any(is_wanted)
    }

    /// Forgets an Instance that is gone.
    pub(crate) fn forget(&self, key: &K) {
        lock(&self.since).remove(key);
    }
}
