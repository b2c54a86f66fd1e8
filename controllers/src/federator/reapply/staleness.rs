//! Finds the cells that lack an object although Karmada treats the object as applied.

use std::collections::BTreeSet;

use api::WorkloadDeployment;
use api::karmada::binding::TargetCluster;
use interpreters::fold::share;
use kube::{Resource, ResourceExt};

use super::below::LackedBelow;
use crate::federator::cell_items::{ReportedObject, items_by_cell};
use crate::hub::cells::{CellState, CopyCells};

/// The reachable cells that lack the current copy, its namespace, or the rules that the policy gives them. These are
/// target cells, and cells below them. After each change of one of these objects, staleness is normal for a short time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::federator) struct Staleness {
    /// The cells that lack the copy or its namespace.
    pub(in crate::federator) cells: BTreeSet<String>,
    /// The lower hubs that have the copy and its namespace, while a cell below lacks one of them. An override of the hub
    /// is applied for the lower hub, so it is not the cause.
    pub(in crate::federator) lower_hubs: BTreeSet<String>,
    /// The cells that have the copy and its namespace, also in all cells below.
    pub(in crate::federator) complete: BTreeSet<String>,
    /// The cells that report other rules than those that the policy gives them. They lack the copy, too.
    pub(in crate::federator) former_rules: BTreeSet<String>,
    /// Whether the namespace may be missing in a cell. This is so if the cell reported it or if the cell has not
    /// reported the copy at all.
    pub(in crate::federator) namespace: bool,
    /// Whether a cell lacks the current copy although Karmada treats the copy as applied, or has not tried to apply it.
    pub(in crate::federator) copy: bool,
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
    let by_cell = items_by_cell(binding);
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
        let (mut has_former_rules, mut is_below) = (false, false);
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
                has_former_rules = !reported.has_rules(stamp);
                if has_former_rules || !reported.has(copy, target) {
                    (false, true)
                } else if !(cells.is_lower_hub)(&target.name) {
                    (false, false)
                } else {
                    is_below = true;
                    let is_reachable = |cell: &str| (cells.state)(cell) == CellState::Reachable;
                    let LackedBelow { namespace, copy } =
                        LackedBelow::of(&target.name, reported, is_reachable, &namespace_missing);
                    (namespace, copy)
                }
            }
        };
        if (cells.state)(&target.name) != CellState::Reachable {
            continue;
        }
        if namespace || copy {
            let stale = match is_below {
                true => &mut staleness.lower_hubs,
                false => &mut staleness.cells,
            };
            stale.insert(target.name.clone());
            if has_former_rules {
                staleness.former_rules.insert(target.name.clone());
            }
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
    /// (docs/concepts/karmada-behaviour.md). Missing values count as correct.
    fn has(&self, copy: &WorkloadDeployment, target: &TargetCluster) -> bool {
        // A copy that was created again starts at generation 1. So a reported generation that is higher is stale too.
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

    /// Returns whether the cell has its rules. A change of the rules does not change the generation. Missing values
    /// count as correct.
    fn has_rules(&self, stamp: Option<i64>) -> bool {
        match (self.cell_rules_stamp, stamp) {
            (Some(reported), Some(wanted)) => reported == wanted,
            _ => true,
        }
    }
}
