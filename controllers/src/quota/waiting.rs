//! The Instances that wait for quota, for a metric.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use api::ProjectName;
use jiff::Timestamp;
use multicluster::Metrics;

use crate::lock::lock;
use crate::runtime::keys::ClaimKey;

/// Since when each Instance waits for quota. An Instance that waits is reconciled at least every five minutes, so the
/// metric is no older.
#[derive(Debug)]
pub(super) struct WaitingInstances {
    since: Mutex<HashMap<ClaimKey, Timestamp>>,
    metrics: Metrics,
}

impl WaitingInstances {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            since: Mutex::default(),
            metrics: metrics.clone(),
        }
    }

    /// Records since when an Instance waits. `None` means that it does not wait.
    pub(super) fn note(&self, key: &ClaimKey, since: Option<Timestamp>, now: Timestamp) {
        let mut all = lock(&self.since);
        match since {
            Some(since) => drop(all.insert(key.clone(), since)),
            None => drop(all.remove(key)),
        }
        let longest = all.values().map(|since| now.duration_since(*since)).max();
        let longest = longest.and_then(|longest| Duration::try_from(longest).ok());
        self.metrics.quota_waiting(longest.unwrap_or_default());
    }

    /// Returns whether an Instance of the project waits.
    pub(super) fn has_any_of(&self, project: &ProjectName) -> bool {
        let all = lock(&self.since);
        all.keys().any(|key| key.project.as_ref() == Some(project))
    }

    /// Forgets an Instance that is gone.
    pub(super) fn forget(&self, key: &ClaimKey) {
        lock(&self.since).remove(key);
    }
}
