//! What cells have not got, though Karmada has nothing more to do about it.

use std::collections::{BTreeMap, BTreeSet};

use api::WorkloadDeployment;
use api::karmada::binding::TargetCluster;
use interpreters::fold::share;
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hub::cells::{CellState, CopyCells};

/// What cells have not got that can be reached and are meant to have it. For a moment that is how it is after each change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::federator) struct Staleness {
    /// These cells.
    pub(in crate::federator) cells: BTreeSet<String>,
    /// The cells that have got all of it.
    pub(in crate::federator) complete: BTreeSet<String>,
    /// The namespace, maybe: it is said to be missing, or nothing has been heard of what is in it.
    pub(in crate::federator) namespace: bool,
    /// The copy as it is, though Karmada takes it for applied.
    pub(in crate::federator) copy: bool,
}

/// `AggregatedStatusItem` (karmada.md 4.1), as far as it tells what a cell has got.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CellItem {
    cluster_name: String,
    applied: bool,
    /// Why it is not: the condition `Applied` of the Work, which has the cell's own words in it.
    applied_message: String,
    /// Not there before Karmada has seen the object in the cell.
    status: Option<ReportedObject>,
}

/// What `InterpretStatus` tells of the object: nothing while it has no status of its own, or goes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReportedObject {
    resource_template_generation: Option<i64>,
    assigned_replicas: Option<i64>,
    assigned_min_replicas: Option<i64>,
}

/// What cells have not got of a copy, as its binding says.
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
    // One that cannot be read is no other's matter.
    let read = |item: &RawValue| serde_json::from_str::<CellItem>(item.get()).ok();
    let items = items.unwrap_or_default();
    let items: Vec<_> = items.into_iter().filter_map(read).collect();
    // As the cell's API server says it of what is created in a namespace that it has not got.
    let namespace_missing = format!(
        "namespaces {:?} not found",
        copy.namespace().unwrap_or_default()
    );
    let by_cell = items.iter().map(|item| (item.cluster_name.as_str(), item));
    let by_cell: BTreeMap<_, _> = by_cell.collect();
    for target in &binding.spec.clusters {
        let Some(item) = by_cell.get(target.name.as_str()) else {
            // Karmada is still about to.
            continue;
        };
        let (namespace, copy) = match &item.status {
            // Karmada itself tries the copy again, and tells the cause.
            _ if !item.applied => (item.applied_message.contains(&namespace_missing), false),
            None => (true, true),
            Some(reported) => (false, !reported.has(copy, target)),
        };
        if (cells.state)(&target.name) != CellState::Reachable {
            continue;
        }
        if namespace || copy {
            staleness.cells.insert(target.name.clone());
            staleness.namespace |= namespace;
            staleness.copy |= copy;
        } else if item.applied {
            staleness.complete.insert(target.name.clone());
        }
    }
    staleness
}

impl ReportedObject {
    /// Whether the object is the copy as it is, with the replicas that Karmada gives this cell: those follow with a write
    /// of their own, and the generation tells nothing of them (karmada.md 12, 2). What is not told is believed.
    fn has(&self, copy: &WorkloadDeployment, target: &TargetCluster) -> bool {
        // One that was made anew begins with the first again.
        let is_another = |applied: i64| copy.meta().generation.is_some_and(|it| applied != it);
        let share = share(
            copy.spec.replicas,
            self.assigned_replicas,
            self.assigned_min_replicas,
        );
        let wanted = target.replicas.map(i64::from);
        !self.resource_template_generation.is_some_and(is_another)
            && (share.is_none() || wanted.is_none() || share == wanted)
    }
}
