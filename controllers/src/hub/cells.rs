//! The reachability of cells and the bindings to them, as the hub reports them (docs/concepts/karmada-behaviour.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::WorkloadDeployment;
use api::condition::{self, ConditionStatus};
use api::karmada::binding::{NO_CLUSTER_FIT, SCHEDULED};
use api::karmada::cluster::READY;
use api::karmada::{Cluster, ResourceBinding};
use jiff::Timestamp;
use kube::Resource;
use multicluster::Cache;
use multicluster::cache::{Index, Reflector};

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
    /// Returns whether the cell is still a member of the federation but does not answer, so its Instances may run.
    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Unreachable { since: Some(_), .. })
    }
}

/// The Clusters of the hub, and the bindings of WorkloadDeployments.
pub(crate) struct Cells {
    clusters: Cache<Cluster>,
    bindings: Cache<ResourceBinding>,
    /// The state of each cell at its last event. Karmada updates each Cluster every 10 s, but the state rarely changes.
    observed: Mutex<BTreeMap<String, CellState>>,
    /// Bindings of WorkloadDeployments, by the UID of the WorkloadDeployment.
    binding_of: Index<ResourceBinding>,
    /// Bindings of WorkloadDeployments, by the cells in `spec.clusters`.
    by_cell: Index<ResourceBinding>,
}

impl Cells {
    /// Creates the lookups on the caches of these reflectors.
    pub(crate) fn new(
        clusters: &Reflector<Cluster>,
        bindings: &Reflector<ResourceBinding>,
    ) -> Self {
        Self {
            clusters: clusters.cache(),
            bindings: bindings.cache(),
            observed: Mutex::default(),
            binding_of: bindings.index(deployment_of),
            by_cell: bindings.index(cells_of),
        }
    }

    /// Returns the binding of a WorkloadDeployment on the hub, if the cache has it. While the hub refuses to list the
    /// kind, no binding is known.
    pub(crate) fn binding_of(&self, copy: &WorkloadDeployment) -> Option<Arc<ResourceBinding>> {
        if self.bindings.refusal().is_some() {
            return None;
        }
        let uid = copy.metadata.uid.as_deref()?;
        self.binding_of.get(uid).into_iter().next()
    }

    /// Returns whether the bindings are known: the hub has listed them, and has not refused them since.
    pub(crate) fn has_bindings(&self) -> bool {
        *self.bindings.synced().borrow() && self.bindings.refusal().is_none()
    }

    /// Returns the state of a cell. While the hub refuses to list the kind, the state is unknown.
    pub(crate) fn state(&self, cell: &str) -> CellState {
        if self.clusters.refusal().is_some() {
            return CellState::Reachable;
        }
        match self.clusters.get("", cell) {
            Ok(Some(cluster)) => state(&cluster),
            Ok(None) if *self.clusters.synced().borrow() => CellState::Unreachable {
                since: None,
                message: "its Cluster does not exist".to_owned(),
            },
            // The Cluster exists but cannot be decoded, so its state is unknown.
            Ok(None) | Err(_) => CellState::Reachable,
        }
    }

    /// Returns the labels of all cells. Returns `None` unless the cache is current.
    pub(crate) fn labels(&self) -> Option<BTreeMap<String, StringMap>> {
        if !self.clusters.sync_state().borrow().is_current() {
            return None;
        }
        let clusters = self.clusters.metadata("").into_iter();
        let labels =
            clusters.map(|it| (it.name.unwrap_or_default(), it.labels.unwrap_or_default()));
        Some(labels.collect())
    }

    /// Observes the state of a cell. Returns whether the state differs from the last observed state. A cell without an
    /// earlier observation counts as reachable.
    pub(crate) fn reachability_changed(&self, cell: &str) -> bool {
        let state = self.state(cell);
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let former = observed.insert(cell.to_owned(), state.clone());
        former.unwrap_or(CellState::Reachable) != state
    }

    /// Returns the cells to which a WorkloadDeployment is scheduled.
    pub(crate) fn scheduled(&self) -> BTreeSet<String> {
        let mut cells = BTreeSet::new();
        self.by_cell.visit_values("", |_, binding| {
            cells.extend(binding.into_iter().flat_map(cells_of));
        });
        cells
    }

    /// Returns the bindings that schedule a WorkloadDeployment to this cell.
    pub(crate) fn bindings_of(&self, cell: &str) -> Vec<Arc<ResourceBinding>> {
        self.by_cell.get(cell)
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

/// Returns whether the binding schedules a WorkloadDeployment.
pub(crate) fn is_of_deployment(binding: &ResourceBinding) -> bool {
    let resource = &binding.spec.resource;
    resource.api_version == api::API_VERSION && resource.kind == WorkloadDeployment::kind(&())
}

/// Returns the values of `Cells::binding_of` for a binding. The value is the UID of the WorkloadDeployment.
fn deployment_of(binding: &ResourceBinding) -> Vec<String> {
    let uid = || binding.spec.resource.uid.clone();
    is_of_deployment(binding).then(uid).into_iter().collect()
}

/// Returns the values of `Cells::by_cell` for a binding. The values are the cells that receive the WorkloadDeployment.
fn cells_of(binding: &ResourceBinding) -> Vec<String> {
    if !is_of_deployment(binding) {
        return Vec::new();
    }
    let targets = binding.spec.clusters.iter();
    targets.map(|target| target.name.clone()).collect()
}

/// Returns the time at which the scheduler decided that no cell matches, and the message of that decision. Returns
/// `None` while the scheduler has not decided. A new binding has an empty list of clusters too, so an empty list alone
/// does not mean that no cell matches.
pub(crate) fn nowhere(binding: &ResourceBinding) -> Option<(Timestamp, &str)> {
    let status = binding.status.as_ref()?;
    let scheduled = condition::find(&status.conditions, SCHEDULED)?;
    // Karmada records the observed generation only when scheduling succeeds. Karmada removes the clusters before it
    // sets the condition `NoClusterFit`.
    let is_said = match scheduled.status {
        ConditionStatus::False => scheduled.reason == NO_CLUSTER_FIT,
        ConditionStatus::True => {
            status.scheduler_observed_generation.is_some()
                && status.scheduler_observed_generation == binding.metadata.generation
        }
        ConditionStatus::Unknown => false,
    };
    (is_said && binding.spec.clusters.is_empty())
        .then_some((scheduled.last_transition_time.0, scheduled.message.as_str()))
}

/// The binding of one copy, and the state of cells.
#[derive(Clone, Copy)]
pub(crate) struct CopyCells<'a> {
    /// The binding of the copy. Without it, the cells of the copy are unknown.
    pub(crate) binding: Option<&'a ResourceBinding>,
    /// Returns the state of a cell.
    pub(crate) state: &'a dyn Fn(&str) -> CellState,
    /// Returns the stamp of the rules that a cell must have; 0 if it must have none, `None` if that is unknown.
    pub(crate) rules_stamp: &'a dyn Fn(&str) -> Option<i64>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apiserver::ApiServer;
    use multicluster::Metrics;
    use multicluster::cache::ListLimiter;
    use serde_json::{Value, json};
    use tokio::time::sleep;

    use super::*;
    use crate::fixtures::object;
    use crate::fixtures::servers::settle;

    const SINCE: &str = "2026-11-21T09:30:00Z";

    fn cluster(version: u32, status: &Value) -> Cluster {
        object(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": status,
            "metadata": {"name": "dfw1", "uid": "c", "resourceVersion": version.to_string(), "creationTimestamp": SINCE},
        }))
    }

    fn with_ready(version: u32, ready: &str) -> Cluster {
        let ready = json!({
            "type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": SINCE,
        });
        cluster(version, &json!({"conditions": [ready]}))
    }

    fn binding(name: &str, kind: &str, cells: &[&str]) -> ResourceBinding {
        let cells: Vec<_> = cells.iter().map(|name| json!({"name": name})).collect();
        object(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"namespace": "ns-1", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {
                "clusters": cells,
                "resource": {"apiVersion": api::API_VERSION, "kind": kind, "name": name, "uid": format!("{name}-uid")},
            },
        }))
    }

    /// Cells, and the bindings that they know of.
    fn cells() -> (Cells, Cache<ResourceBinding>) {
        let metrics = Metrics::default();
        let bindings = Reflector::new("hub", &metrics);
        let clusters = Reflector::new("hub", &metrics);
        (Cells::new(&clusters, &bindings), bindings.cache())
    }

    fn unreachable(message: &str) -> CellState {
        CellState::Unreachable {
            since: Some(SINCE.parse().unwrap()),
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_cell_is_reachable_while_its_cluster_is_ready() {
        assert_eq!(state(&with_ready(1, "True")), CellState::Reachable);
        for ready in ["False", "Unknown"] {
            assert_eq!(state(&with_ready(1, ready)), unreachable("m"));
        }
        let joining = unreachable("its Cluster has not been Ready yet");
        assert_eq!(state(&cluster(1, &Value::Null)), joining);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_known_before_the_first_list_and_while_the_hub_refuses_the_kinds() {
        let hub = ApiServer::new();
        hub.put(json!(with_ready(1, "False")));
        hub.put(json!(binding("a", "WorkloadDeployment", &["dfw1"])));
        let metrics = Metrics::default();
        let (bindings, clusters) = (
            Reflector::new("hub", &metrics),
            Reflector::new("hub", &metrics),
        );
        let cells = Cells::new(&clusters, &bindings);
        let copy = object::<WorkloadDeployment>(json!({
            "metadata": {"uid": "a-uid"},
            "spec": crate::fixtures::deployment("ns-1", "a", "DFW", 1).spec,
        }));
        let known = || {
            let is_gone = matches!(
                cells.state("ord1"),
                CellState::Unreachable { since: None, .. }
            );
            (
                is_gone,
                cells.state("dfw1"),
                cells.binding_of(&copy).is_some(),
            )
        };
        let nothing = (false, CellState::Reachable, false);
        assert_eq!(known(), nothing);
        let lists = ListLimiter::default();
        tokio::spawn(clusters.run(hub.client(), lists.clone()));
        tokio::spawn(bindings.run(hub.client(), lists));
        settle().await;
        assert_eq!(known(), (true, unreachable("m"), true));

        hub.stop_serving::<Cluster>();
        hub.stop_serving::<ResourceBinding>();
        hub.interrupt();
        sleep(Duration::from_mins(2)).await;
        assert_eq!(known(), nothing);
    }

    #[test]
    fn a_change_of_reachability_is_noticed_once() {
        let (cells, bindings) = cells();
        for (name, kind, targets) in [
            ("a", "WorkloadDeployment", ["dfw1", "dfw2"]),
            ("b", "WorkloadDeployment", ["ord1", "ord2"]),
            ("c", "ConfigMap", ["dfw1", "dfw2"]),
        ] {
            bindings.observe_write(binding(name, kind, &targets));
        }
        let changed = |cluster: Cluster| {
            cells.clusters.observe_write(cluster);
            let changed = cells.reachability_changed("dfw1");
            let bindings = changed.then(|| cells.bindings_of("dfw1"));
            let bindings = bindings.into_iter().flatten();
            let names: Vec<_> = bindings.filter_map(|it| it.metadata.name.clone()).collect();
            names.join(" ")
        };
        assert_eq!(changed(with_ready(1, "True")), "");
        assert_eq!(changed(with_ready(2, "False")), "a");
        assert_eq!(changed(with_ready(3, "False")), "");
        assert_eq!(changed(with_ready(4, "True")), "a");
        assert_eq!(changed(with_ready(5, "True")), "");
    }

    #[test]
    fn a_binding_is_found_by_the_uid_of_its_deployment() {
        let (cells, bindings) = cells();
        let copy = |name: &str| {
            let mut copy = crate::fixtures::deployment("ns-1", name, "DFW", 1);
            copy.metadata.uid = Some(format!("{name}-uid"));
            copy
        };
        for (name, kind) in [("a", "WorkloadDeployment"), ("b", "Instance")] {
            bindings.observe_write(binding(name, kind, &["dfw1"]));
        }
        let found = cells.binding_of(&copy("a")).unwrap();
        assert_eq!(found.spec.resource.name, "a");
        assert_eq!(cells.binding_of(&copy("b")), None, "of another kind");
        let mut anew = copy("a");
        anew.metadata.uid = Some("another".to_owned());
        assert_eq!(cells.binding_of(&anew), None, "of one that is gone");
    }
}
