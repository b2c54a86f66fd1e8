//! The share of the replicas that Karmada assigns to each cell.

use std::collections::BTreeMap;

use super::cell_view::{CellView, Source};
use super::resource_template::ResourceTemplate;
use super::status::{RememberedCell, saturated};

/// Replicas by cell, sorted by name.
pub(super) type CellShares<'k> = Vec<(&'k str, i32)>;

/// The share of a cell, and the total that was divided. Both are from the last time when all cells had their shares.
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

/// Returns the share that each cell reports; `None` unless all cells report one.
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
                generations.assigned_replicas,
                generations.assigned_min_replicas,
            );
            Some((cell.name?, saturated(share?.max(0))))
        })
        .collect()
}

/// Returns the share that Karmada assigned to a cell, from two fields that `InterpretStatus` adds. If the template does
/// not set `spec.replicas`, an autoscaler may have set it in the cell, and `assigned_min_replicas` is the share.
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

/// Returns whether these are the shares of this total: they sum to it (Divided), or each equals it (Duplicated).
///
/// Karmada first sends a new template with the shares of the former total (docs/concepts/karmada-behaviour.md), so the
/// generation alone does not prove that a cell has its share. The sum can also be correct by chance. So two more rules
/// apply: with a new total, at least one share must differ from the stored shares; and no share may be 0 if the total
/// is above 0.
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
