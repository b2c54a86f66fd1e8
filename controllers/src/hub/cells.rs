//! The reachability of cells and the bindings to them, as the hub reports them (docs/concepts/karmada-behaviour.md).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::condition::{self, ConditionStatus};
use api::identity::{CLUSTER_SEPARATOR, cluster_of};
use api::karmada::binding::{NO_CLUSTER_FIT, SCHEDULED};
use api::karmada::{Cluster, ResourceBinding};
use api::lower_hub::SilentLowerHub;
use api::{LowerHub, WorkloadDeployment};
use interpreters::fold::StatusFold;
use jiff::Timestamp;
use kube::Resource;
use multicluster::Cache;
use multicluster::cache::{Index, Reflector};

use super::cells_below::CellsBelow;
pub(crate) use super::clusters::CellState;
use super::clusters::ClusterStates;
use crate::objects::StringMap;

/// The Clusters of the hub, the cells below them, and the bindings of WorkloadDeployments.
pub(crate) struct Cells {
    clusters: ClusterStates,
    below: CellsBelow,
    bindings: Cache<ResourceBinding>,
    /// Bindings of WorkloadDeployments, by the UID of the WorkloadDeployment.
    binding_of: Index<ResourceBinding>,
    /// Bindings of WorkloadDeployments, by the Clusters that have the WorkloadDeployment, or are to receive it.
    by_cluster: Index<ResourceBinding>,
}

impl Cells {
    /// Creates the lookups on the caches of these reflectors.
    pub(crate) fn new(
        clusters: &Reflector<Cluster>,
        lower_hubs: &Reflector<LowerHub>,
        bindings: &Reflector<ResourceBinding>,
    ) -> Self {
        Self {
            clusters: ClusterStates::new(clusters.cache()),
            below: CellsBelow::new(lower_hubs.cache()),
            bindings: bindings.cache(),
            binding_of: bindings.index(deployment_of),
            by_cluster: bindings.index(reached_clusters),
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

    /// Returns the state of a cell: a Cluster of the hub, or a cell below one. While the hub refuses to list a kind, the
    /// kind says nothing.
    pub(crate) fn state(&self, cell: &str) -> CellState {
        let Some((lower_hub, below)) = cell.split_once(CLUSTER_SEPARATOR) else {
            return self.clusters.state(cell);
        };
        match self.clusters.state(lower_hub) {
            CellState::Reachable => self.below.state(lower_hub, below),
            unreachable @ CellState::Unreachable { .. } => unreachable,
        }
    }

    /// Returns whether the state of a cell is known. That of a cell below a lower hub is not while only the lower hub could
    /// say it, and does not.
    pub(crate) fn knows(&self, cell: &str) -> bool {
        let Some((lower_hub, below)) = cell.split_once(CLUSTER_SEPARATOR) else {
            return true;
        };
        self.clusters.state(lower_hub) != CellState::Reachable || self.below.knows(lower_hub, below)
    }

    /// Returns the lower hubs with silent processes: this Cluster, and those below it. The state of the cells below them is
    /// not known. While the Cluster is not reachable, it is known.
    pub(crate) fn silent(&self, cluster: &str) -> Vec<SilentLowerHub> {
        match self.clusters.state(cluster) {
            CellState::Reachable => self.below.silent(cluster),
            CellState::Unreachable { .. } => Vec::new(),
        }
    }

    /// Returns the state that users see of the cell that a copy of an Instance names. If the Cluster that leads there has
    /// become a lower hub since, or is one no more, the cell is not there any more. A label can be wrong, so this proves
    /// nothing.
    pub(crate) fn shown_state(&self, cell: &str) -> CellState {
        let cluster = cluster_of(cell);
        let is_below = cluster != cell;
        if !self.clusters.has(cluster) || self.is_lower_hub(cluster) == is_below {
            return self.state(cell);
        }
        let message = match is_below {
            true => format!("Cluster {cluster} is not labelled as a lower hub"),
            false => format!("Cluster {cluster} is a lower hub now"),
        };
        let since = None;
        CellState::Unreachable { since, message }
    }

    /// Returns whether a Cluster of the hub is a lower hub, as its label says.
    pub(crate) fn is_lower_hub(&self, cluster: &str) -> bool {
        self.clusters.is_lower_hub(cluster)
    }

    /// Returns the labels of all cells that are Clusters of the hub. Returns `None` unless the cache is current.
    pub(crate) fn labels(&self) -> Option<BTreeMap<String, StringMap>> {
        self.clusters.labels()
    }

    /// Observes the state of a Cluster of the hub. Returns whether it differs from the last observed state.
    pub(crate) fn reachability_changed(&self, cluster: &str) -> bool {
        self.clusters.changed(cluster)
    }

    /// Observes the cells below a lower hub. Returns those whose state differs from the last observed state. The name of
    /// the lower hub stands for all its cells.
    pub(crate) fn changed_below(&self, lower_hub: &str) -> Vec<String> {
        self.below.changed(lower_hub)
    }

    /// Returns the Clusters that have a WorkloadDeployment, or are to receive one, sorted.
    pub(crate) fn reached(&self) -> Vec<String> {
        self.by_cluster.values()
    }

    /// Returns the bindings of the WorkloadDeployments that the Cluster that leads to this cell has, or is to receive.
    pub(crate) fn bindings_of(&self, cell: &str) -> Vec<Arc<ResourceBinding>> {
        self.by_cluster.get(cluster_of(cell))
    }
}

/// Returns whether a WorkloadDeployment is scheduled to a Cluster, or is still there.
pub(crate) fn reaches(binding: &ResourceBinding, cluster: &str) -> bool {
    let items = binding.status.as_ref();
    let items = items.and_then(|status| status.aggregated_status.as_ref());
    let has_item = || {
        let names = items.map(|items| StatusFold::names_in(items.get()));
        names.is_some_and(|names| names.map_or(true, |names| names.contains(cluster)))
    };
    binding
        .spec
        .clusters
        .iter()
        .any(|target| target.name == cluster)
        || has_item()
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

/// Returns the values of `Cells::by_cluster` for a binding. A Cluster that is no longer selected counts until the
/// WorkloadDeployment is gone there.
fn reached_clusters(binding: &ResourceBinding) -> Vec<String> {
    if !is_of_deployment(binding) {
        return Vec::new();
    }
    let items = binding.status.as_ref();
    let items = items.and_then(|status| status.aggregated_status.as_ref());
    let reported = items.and_then(|items| StatusFold::names_in(items.get()).ok());
    let mut clusters = reported.unwrap_or_default();
    let targets = binding.spec.clusters.iter();
    clusters.extend(targets.map(|target| Cow::from(&target.name)));
    clusters.into_iter().map(Cow::into_owned).collect()
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
    /// Returns whether a Cluster is a lower hub, as its label says.
    pub(crate) is_lower_hub: &'a dyn Fn(&str) -> bool,
    /// Returns the lower hubs with silent processes, from a Cluster on.
    pub(crate) silent: &'a dyn Fn(&str) -> Vec<SilentLowerHub>,
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

    /// Cells, and the caches that they read.
    struct Known {
        cells: Cells,
        clusters: Cache<Cluster>,
        lower_hubs: Cache<LowerHub>,
        bindings: Cache<ResourceBinding>,
    }

    fn known() -> Known {
        let metrics = Metrics::default();
        let bindings = Reflector::new("hub", &metrics);
        let clusters = Reflector::new("hub", &metrics);
        let lower_hubs = Reflector::new("hub", &metrics);
        Known {
            cells: Cells::new(&clusters, &lower_hubs, &bindings),
            clusters: clusters.cache(),
            lower_hubs: lower_hubs.cache(),
            bindings: bindings.cache(),
        }
    }

    fn unreachable(message: &str) -> CellState {
        CellState::Unreachable {
            since: Some(SINCE.parse().unwrap()),
            message: message.to_owned(),
        }
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
        let cells = Cells::new(&clusters, &Reflector::new("hub", &metrics), &bindings);
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
        let known = known();
        for (name, kind, targets) in [
            ("a", "WorkloadDeployment", ["dfw1", "dfw2"]),
            ("b", "WorkloadDeployment", ["ord1", "ord2"]),
            ("c", "ConfigMap", ["dfw1", "dfw2"]),
        ] {
            known.bindings.observe_write(binding(name, kind, &targets));
        }
        let changed = |cluster: Cluster| {
            known.clusters.observe_write(cluster);
            let changed = known.cells.reachability_changed("dfw1");
            let bindings = changed.then(|| known.cells.bindings_of("dfw1"));
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

    /// Until it is gone there, the WorkloadDeployment is shown as it is in this cell.
    #[test]
    fn a_cell_that_is_no_longer_selected_has_the_binding_while_it_has_the_object() {
        let known = known();
        let with_items = |version: u32, items: &[&str]| {
            let mut left = json!(binding("a", "WorkloadDeployment", &["dfw2"]));
            let item = |name: &&str| json!({"clusterName": name, "applied": true});
            left["status"]["aggregatedStatus"] = items.iter().map(item).collect();
            left["metadata"]["resourceVersion"] = json!(version.to_string());
            known.bindings.observe_write(object(left));
            ["dfw1.x", "dfw2"].map(|cell| known.cells.bindings_of(cell).len())
        };
        assert_eq!(with_items(1, &["dfw1", "dfw2"]), [1, 1]);
        assert_eq!(known.cells.reached(), ["dfw1", "dfw2"]);
        // Another one is scheduled to a cell that the first one has left.
        let other = binding("b", "WorkloadDeployment", &["dfw1"]);
        known.bindings.observe_write(other);
        assert_eq!(known.cells.reached(), ["dfw1", "dfw2"]);
        assert_eq!(with_items(2, &["dfw2"]), [1, 1]);
        assert_eq!(known.cells.bindings_of("dfw1")[0].spec.resource.name, "b");
    }

    #[test]
    fn a_binding_is_found_by_the_uid_of_its_deployment() {
        let Known {
            cells, bindings, ..
        } = known();
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
    /// The cell `dfw1.a1` is below the Cluster `dfw1`.
    #[test]
    fn a_cell_below_is_unreachable_if_its_lower_hub_or_its_own_cluster_is() {
        let known = known();
        let state = || known.cells.state("dfw1.a1");
        known.clusters.observe_write(with_ready(1, "True"));
        assert_eq!(state(), CellState::Reachable, "nothing is known of a1");
        let lower_hub = json!({
            "metadata": {"name": "dfw1", "uid": "l", "resourceVersion": "1"}, "spec": {},
            "status": {
                "cellCount": 1, "notReady": 1,
                "cells": [{"name": "a1", "ready": false, "since": SINCE, "message": "down"}],
            },
        });
        known.lower_hubs.observe_write(object(lower_hub));
        assert_eq!(known.cells.changed_below("dfw1"), ["dfw1"]);
        assert_eq!(state(), unreachable("down"));
        known.clusters.observe_write(with_ready(2, "False"));
        assert_eq!(state(), unreachable("m"));
        known
            .bindings
            .observe_write(binding("a", "WorkloadDeployment", &["dfw1"]));
        for (cell, expected) in [("dfw1", 1), ("dfw1.a1", 1), ("a1", 0)] {
            assert_eq!(known.cells.bindings_of(cell).len(), expected, "{cell}");
        }
    }
}
