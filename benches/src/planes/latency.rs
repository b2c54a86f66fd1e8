//! Measures the time that a change needs from one plane to another.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::workload_deployment::{CELL_UNREACHABLE, CELLS_REPORTING};
use apiserver::{Key, Stored, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Plane;

/// The expected changes, and the latencies of the changes that have arrived.
#[derive(Default)]
pub(super) struct Latencies {
    /// The content that a status will show, by project and deployment.
    statuses: Mutex<Waiting<(String, Key), Shown>>,
    /// The hub namespace that will get a deployment of a Workload, by name of the Workload.
    arrivals: Mutex<Waiting<String, String>>,
}

/// The content of the status of a project's deployment.
pub(super) enum Shown {
    /// This number of replicas.
    Replicas(u64),
    /// A cell cannot be reached. The message has this name.
    Unreachable(String),
    /// Every cell can be reached.
    Reachable,
}

impl Shown {
    fn is_in(&self, deployment: &Value) -> bool {
        let conditions = deployment["status"]["conditions"].as_array();
        let unreachable = conditions
            .into_iter()
            .flatten()
            .find(|it| it["type"] == CELLS_REPORTING && it["reason"] == CELL_UNREACHABLE);
        match self {
            Self::Replicas(replicas) => deployment["status"]["replicas"] == *replicas,
            Self::Unreachable(cell) => {
                unreachable.is_some_and(|it| text(it, "/message").contains(cell))
            }
            Self::Reachable => unreachable.is_none(),
        }
    }
}

struct Waiting<K, V> {
    waited_for: HashMap<K, (V, Instant)>,
    took: Vec<Duration>,
}

impl<K, V> Default for Waiting<K, V> {
    fn default() -> Self {
        Self {
            waited_for: HashMap::new(),
            took: Vec::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Latencies {
    /// Starts to measure the time until the status of a project's deployment shows this.
    pub(super) fn await_status(&self, project: &str, key: Key, shown: Shown) {
        let mut statuses = lock(&self.statuses);
        let place = (project.to_owned(), key);
        statuses.waited_for.insert(place, (shown, Instant::now()));
    }

    /// Starts to measure the time until a deployment of this Workload is in this hub namespace.
    pub(super) fn await_arrival(&self, hub_namespace: &str, workload: &str) {
        let mut arrivals = lock(&self.arrivals);
        let since = (hub_namespace.to_owned(), Instant::now());
        arrivals.waited_for.insert(workload.to_owned(), since);
    }

    /// Records a deployment that has just been written.
    pub(super) fn wrote(&self, is_on_hub: bool, plane: &Plane, stored: &Stored) {
        if is_on_hub {
            let mut arrivals = lock(&self.arrivals);
            let arrived = arrivals
                .waited_for
                .iter()
                .find(|(workload, (namespace, _))| {
                    stored.key.0 == *namespace && stored.key.1.starts_with(&format!("{workload}-"))
                });
            if let Some(workload) = arrived.map(|(workload, _)| workload.clone()) {
                let since = arrivals.waited_for.remove(&workload);
                arrivals
                    .took
                    .extend(since.map(|(_, since)| since.elapsed()));
            }
            return;
        }
        let mut statuses = lock(&self.statuses);
        if statuses.waited_for.is_empty() {
            return;
        }
        let written = (plane.name.clone(), stored.key.clone());
        let is_there = statuses
            .waited_for
            .get(&written)
            .is_some_and(|(shown, _)| shown.is_in(&stored.value()));
        if is_there {
            let since = statuses.waited_for.remove(&written);
            statuses
                .took
                .extend(since.map(|(_, since)| since.elapsed()));
        }
    }

    /// Returns the number of statuses that have not arrived.
    pub(super) fn missing_statuses(&self) -> usize {
        lock(&self.statuses).waited_for.len()
    }

    /// Returns the number of Workloads without a deployment on the hub.
    pub(super) fn missing_arrivals(&self) -> usize {
        lock(&self.arrivals).waited_for.len()
    }

    /// Removes the recorded latencies of statuses and returns their summary.
    pub(super) fn statuses(&self) -> Value {
        summary(&mut lock(&self.statuses))
    }

    /// Removes the recorded latencies of the statuses that have arrived, and returns them.
    pub(super) fn take_statuses(&self) -> Vec<Duration> {
        std::mem::take(&mut lock(&self.statuses).took)
    }

    /// Removes the recorded latencies of arrivals and returns their summary.
    pub(super) fn arrivals(&self) -> Value {
        summary(&mut lock(&self.arrivals))
    }
}

fn summary<K, V>(waiting: &mut Waiting<K, V>) -> Value {
    let Waiting { waited_for, took } = std::mem::take(waiting);
    percentiles(&took, waited_for.len())
}

/// Returns counts, and percentiles in milliseconds.
pub(super) fn percentiles(took: &[Duration], missing: usize) -> Value {
    let mut took: Vec<_> = took.iter().map(|it| it.as_secs_f64() * 1000.0).collect();
    took.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let index = (took.len() * percent / 100).min(took.len().saturating_sub(1));
        took.get(index)
    };
    json!({
        "arrived": took.len(),
        "missing": missing,
        "p50": at(50),
        "p99": at(99),
        "max": took.last(),
    })
}
