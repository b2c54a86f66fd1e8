//! The reachability of the Clusters of a hub.

use std::collections::BTreeMap;
use std::sync::Mutex;

use api::condition;
use api::karmada::Cluster;
use api::karmada::cluster::READY;
use api::labels::LOWER_HUB;
use jiff::Timestamp;
use kube::Resource;
use multicluster::Cache;

use crate::lock::lock;
use crate::objects::StringMap;

/// The reachability of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellState {
    /// The Cluster is Ready, or its state is unknown.
    Reachable,
    /// The Cluster is not Ready, or does not exist.
    Unreachable {
        /// When the Cluster stopped being Ready. `None` if the Cluster does not exist.
        since: Option<Timestamp>,
        /// The reason. Users read it.
        message: String,
    },
}

impl CellState {
    /// Returns the state of a cell whose Cluster does not exist.
    pub(super) fn without_cluster() -> Self {
        Self::Unreachable {
            since: None,
            message: "its Cluster does not exist".to_owned(),
        }
    }

    /// Returns whether the cell is still a member of the federation but does not answer, so its Instances may run.
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Unreachable { since: Some(_), .. })
    }
}

/// The states of the Clusters of a hub.
pub(crate) struct ClusterStates {
    clusters: Cache<Cluster>,
    /// The state of each Cluster at its last event, and whether it was a lower hub. Karmada updates each Cluster every
    /// 10 s, but these rarely change. A deleted Cluster is forgotten.
    observed: Mutex<BTreeMap<String, (CellState, bool)>>,
}

impl ClusterStates {
    pub(crate) fn new(clusters: Cache<Cluster>) -> Self {
        Self {
            clusters,
            observed: Mutex::default(),
        }
    }

    /// Returns the state of a Cluster. While the hub refuses to list the kind, the state is unknown.
    pub(crate) fn state(&self, cluster: &str) -> CellState {
        if self.clusters.refusal().is_some() {
            return CellState::Reachable;
        }
        match self.clusters.get("", cluster) {
            Ok(Some(cluster)) => state(&cluster),
            Ok(None) if *self.clusters.synced().borrow() => CellState::without_cluster(),
            // The Cluster exists but cannot be decoded, so its state is unknown.
            Ok(None) | Err(_) => CellState::Reachable,
        }
    }

    /// Returns whether the cache is current.
    pub(crate) fn are_current(&self) -> bool {
        self.clusters.sync_state().borrow().is_current()
    }

    /// Returns the states of all Clusters. Returns `None` unless the cache is current.
    pub(crate) fn all(&self) -> Option<BTreeMap<String, CellState>> {
        if !self.are_current() {
            return None;
        }
        let names = self.clusters.keys().into_iter().map(|(_, name)| name);
        let states = names.map(|name| {
            let state = self.state(&name);
            (name, state)
        });
        Some(states.collect())
    }

    /// Returns the labels of all Clusters. Returns `None` unless the cache is current.
    pub(crate) fn labels(&self) -> Option<BTreeMap<String, StringMap>> {
        if !self.are_current() {
            return None;
        }
        let clusters = self.clusters.metadata("").into_iter();
        let labels =
            clusters.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default()));
        Some(labels.collect())
    }

    /// Returns whether the hub has this Cluster, as far as it is known.
    pub(crate) fn has(&self, cluster: &str) -> bool {
        self.clusters.refusal().is_none() && self.clusters.metadata_of("", cluster).is_some()
    }

    /// Returns whether a Cluster is a lower hub, as its label says. Returns false if the Cluster is not known.
    pub(crate) fn is_lower_hub(&self, cluster: &str) -> bool {
        let labels = self
            .clusters
            .metadata_of("", cluster)
            .and_then(|it| it.labels);
        labels.is_some_and(|it| it.get(LOWER_HUB).is_some_and(|value| value == "true"))
    }

    /// Observes the state of a Cluster. Returns whether the state differs from the last observed state, or whether the
    /// Cluster has become a lower hub or is one no more. A Cluster without an earlier observation counts as reachable.
    pub(crate) fn changed(&self, cluster: &str) -> bool {
        let current = (self.state(cluster), self.is_lower_hub(cluster));
        let mut observed = lock(&self.observed);
        let former = match self.clusters.metadata_of("", cluster) {
            Some(_) => observed.insert(cluster.to_owned(), current.clone()),
            None => observed.remove(cluster),
        };
        match former {
            Some(former) => former != current,
            None => current.0 != CellState::Reachable,
        }
    }
}

/// Returns the state of a cell from its Cluster.
fn state(cluster: &Cluster) -> CellState {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|status| condition::find(&status.conditions, READY));
    match ready {
        Some(ready) if ready.is_true() => CellState::Reachable,
        Some(ready) => CellState::Unreachable {
            since: Some(ready.last_transition_time.0),
            message: ready.message.clone(),
        },
        None => CellState::Unreachable {
            since: cluster
                .meta()
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            message: "its Cluster has not been Ready yet".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use apiserver::ApiServer;
    use multicluster::Metrics;
    use multicluster::cache::{ListLimiter, Reflector};
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;
    use crate::fixtures::servers::settle;

    const SINCE: &str = "2026-11-21T09:30:00Z";

    #[tokio::test(start_paused = true)]
    async fn a_deleted_cluster_is_forgotten() {
        let server = ApiServer::new();
        server.put(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw1"},
        }));
        let clusters = Reflector::<Cluster>::new("hub", &Metrics::default());
        let states = ClusterStates::new(clusters.cache());
        tokio::spawn(clusters.run(server.client(), ListLimiter::default()));
        settle().await;
        assert_eq!(
            (states.changed("dfw1"), states.changed("dfw1")),
            (true, false)
        );
        assert_eq!(lock(&states.observed).len(), 1);
        server.remove::<Cluster>("", "dfw1");
        settle().await;
        assert!(states.changed("dfw1"));
        assert!(lock(&states.observed).is_empty());
    }

    #[test]
    fn a_cell_is_reachable_while_its_cluster_is_ready() {
        let of_status = |status: Value| {
            state(&object(json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": status,
                "metadata": {"name": "dfw1", "creationTimestamp": SINCE},
            })))
        };
        let with_ready = |ready: &str| {
            of_status(json!({"conditions": [{
                "type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": SINCE,
            }]}))
        };
        let unreachable = |message: &str| CellState::Unreachable {
            since: Some(SINCE.parse().unwrap()),
            message: message.to_owned(),
        };
        assert_eq!(with_ready("True"), CellState::Reachable);
        for ready in ["False", "Unknown"] {
            assert_eq!(with_ready(ready), unreachable("m"));
        }
        let joining = unreachable("its Cluster has not been Ready yet");
        assert_eq!(of_status(Value::Null), joining);
    }
}
