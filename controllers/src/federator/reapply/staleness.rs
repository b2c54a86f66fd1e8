//! Finds the cells that lack an object although Karmada treats the object as applied.

use std::collections::{BTreeMap, BTreeSet};

use api::WorkloadDeployment;
use api::karmada::binding::TargetCluster;
use interpreters::fold::share;
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hub::cells::{CellState, CopyCells};

/// The reachable target cells that lack the copy or its namespace. After each change of the copy, staleness is normal
/// for a short time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::federator) struct Staleness {
    /// The cells that lack the copy or its namespace.
    pub(in crate::federator) cells: BTreeSet<String>,
    /// The cells that have the copy and its namespace.
    pub(in crate::federator) complete: BTreeSet<String>,
    /// Whether the namespace may be missing in a cell. This is so if the cell reported it or if the cell has not
    /// reported the copy at all.
    pub(in crate::federator) namespace: bool,
    /// Whether a cell lacks the current copy although Karmada treats the copy as applied, or has not tried to apply it.
    pub(in crate::federator) copy: bool,
}

/// The fields of Karmada's `AggregatedStatusItem` that show the state of a cell (docs/concepts/status.md).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CellItem {
    cluster_name: String,
    applied: bool,
    /// The message of the Work's condition `Applied`. It contains the error of the cell's API server.
    applied_message: String,
    /// Absent until Karmada has observed the object in the cell.
    status: Option<ReportedObject>,
}

/// The name of the cell of an `AggregatedStatusItem` that cannot be decoded otherwise.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedItem {
    cluster_name: String,
}

/// The result of `InterpretStatus`. The result is empty while the object has no status or is terminating.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReportedObject {
    resource_template_generation: Option<i64>,
    assigned_replicas: Option<i64>,
    assigned_min_replicas: Option<i64>,
    /// An interpreter of an earlier version does not report it.
    cell_rules_stamp: Option<i64>,
}

/// Returns which cells lack the copy, according to its binding.
pub(in crate::federator) fn staleness(
    copy: &WorkloadDeployment,
    cells: CopyCells<'_>,
) -> Staleness {
    let mut staleness = Staleness::default();
    let Some(binding) = cells.binding else {
        return staleness;
    };
    let items = binding.status.as_ref();
    let items = items.and_then(|status| status.aggregated_status.as_ref());
    let items = items.and_then(|items| serde_json::from_str::<Vec<&RawValue>>(items.get()).ok());
    // An undecodable item must not hide the items of other cells, so each item is decoded alone.
    let read = |item: &RawValue| match serde_json::from_str::<CellItem>(item.get()) {
        Ok(item) => Some((item.cluster_name.clone(), Some(item))),
        Err(_) => {
            let NamedItem { cluster_name } = serde_json::from_str(item.get()).ok()?;
            Some((cluster_name, None))
        }
    };
    let items = items.unwrap_or_default();
    let by_cell: BTreeMap<_, _> = items.into_iter().filter_map(read).collect();
    // The error of an API server when an object is created in a missing namespace.
    let namespace_missing = format!(
        "namespaces {:?} not found",
        copy.namespace().unwrap_or_default()
    );
    for target in &binding.spec.clusters {
        let item = match by_cell.get(&target.name) {
            // The item cannot be decoded.
            Some(None) => continue,
            Some(item) => item.as_ref(),
            None => None,
        };
        let (namespace, copy) = match item.map(|item| (item, &item.status)) {
            // Karmada has not written to this cell yet. If the cell was away meanwhile, or still has a former object of
            // this name, Karmada tries again after up to 17 minutes.
            None => (false, true),
            Some((item, _)) if !item.applied && item.applied_message.is_empty() => (false, true),
            // Karmada itself retries the copy and reports the cause.
            Some((item, _)) if !item.applied => {
                (item.applied_message.contains(&namespace_missing), false)
            }
            Some((_, None)) => (true, true),
            Some((_, Some(reported))) => {
                let stamp = (cells.rules_stamp)(&target.name);
                (false, !reported.has(copy, target, stamp))
            }
        };
        if (cells.state)(&target.name) != CellState::Reachable {
            continue;
        }
        if namespace || copy {
            staleness.cells.insert(target.name.clone());
            staleness.namespace |= namespace;
            staleness.copy |= copy;
        } else if item.is_some_and(|item| item.applied) {
            staleness.complete.insert(target.name.clone());
        }
    }
    staleness
}

impl ReportedObject {
    /// Returns whether the cell has the current copy with the replicas that Karmada assigned to the cell. Karmada
    /// writes the replicas later than the template, and that write does not change the generation
    /// (docs/concepts/karmada-behaviour.md). A change of the rules of the cell does not change the generation either.
    /// Missing values count as correct.
    fn has(
        &self,
        copy: &WorkloadDeployment,
        target: &TargetCluster,
        rules_stamp: Option<i64>,
    ) -> bool {
        // A copy that was created again starts at generation 1. So a reported generation that is higher is stale too.
        let is_another = |applied: i64| copy.meta().generation.is_some_and(|it| applied != it);
        let share = share(
            copy.spec.replicas,
            self.assigned_replicas,
            self.assigned_min_replicas,
        );
        let wanted = target.replicas.map(i64::from);
        let has_rules = match (self.cell_rules_stamp, rules_stamp) {
            (Some(reported), Some(wanted)) => reported == wanted,
            _ => true,
        };
        has_rules
            && !self.resource_template_generation.is_some_and(is_another)
            && (share.is_none() || wanted.is_none() || share == wanted)
    }
}
