//! The shares: the number of replicas that Karmada assigns to each cell.

use std::collections::BTreeMap;

use super::cell_view::{CellView, Source};
use super::resource_template::ResourceTemplate;
use super::status::{RememberedCell, saturated};

/// The share of each cell, sorted by name.
pub(super) type CellShares<'k> = Vec<(&'k str, i32)>;

/// The share of a cell, and the total number of replicas at that time. Both numbers are from the last time when all
/// cells had their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AssignedShare {
    pub(super) assigned_replicas: Option<i32>,
    pub(super) template_replicas: Option<i32>,
}

impl AssignedShare {
    pub(super) fn of(cell: &RememberedCell<'_>) -> Self {
        Self {
            assigned_replicas: cell.assigned_replicas,
            template_replicas: cell.template_replicas,
        }
    }
}

/// Returns the share of each cell. Returns `None` if a cell does not report a share.
pub(super) fn shares<'k>(
    cells: &'k [CellView<'_, '_>],
    template: &ResourceTemplate<'_>,
) -> Option<CellShares<'k>> {
    cells
        .iter()
        .map(|cell| {
            let Source::Report(report) = cell.source else {
                return None;
            };
            let generations = report.generations;
            let share = share(
                template.replicas,
                generations.assigned_replicas.map(i64::from),
                generations.assigned_min_replicas.map(i64::from),
            );
            Some((cell.name?, saturated(share?.max(0))))
        })
        .collect()
}

/// Returns the share that Karmada assigned to a cell. The inputs are two fields that `InterpretStatus` adds. If the
/// template has no `spec.replicas`, an autoscaler may have set `spec.replicas` in the cell. The share is then
/// `assigned_min_replicas`.
pub fn share(
    template_replicas: Option<i32>,
    assigned_replicas: Option<i64>,
    assigned_min_replicas: Option<i64>,
) -> Option<i64> {
    match template_replicas {
        Some(_) => assigned_replicas,
        None => assigned_min_replicas.or(assigned_replicas),
    }
}

/// Returns whether these are the shares of this total. With Divided, the sum of the shares equals the total. With
/// Duplicated, each share equals the total.
///
/// Karmada first sends a new template with the shares of the former total (docs/concepts/karmada-behaviour.md). A cell
/// can therefore report the new generation before it has its new share. The sum of former shares can also equal the new
/// total by chance. Two more rules prevent a wrong result. If the total has changed, at least one share must differ
/// from the stored shares. If the total is above 0, no share may be 0.
pub(super) fn are_shares_of(
    shares: &CellShares<'_>,
    total: i32,
    remembered: &[RememberedCell<'_>],
) -> bool {
    let sum = shares
        .iter()
        .fold(0_i32, |sum, (_, share)| sum.saturating_add(*share));
    let adds_up = sum == total || shares.iter().all(|(_, share)| *share == total);
    let has_zero = total > 0 && shares.iter().any(|(_, share)| *share == 0);
    let total_changed = remembered
        .iter()
        .any(|cell| cell.template_replicas.is_some_and(|former| former != total));
    let former_shares = || {
        let cells = remembered.iter();
        let shares = cells.filter_map(|cell| Some((cell.name.as_ref(), cell.assigned_replicas?)));
        shares.collect::<BTreeMap<_, _>>()
    };
    adds_up
        && !has_zero
        && !(total_changed && former_shares().into_iter().eq(shares.iter().copied()))
}
