//! The shares: the number of replicas that Karmada assigns to each cell.

use std::collections::BTreeMap;

use api::identity::cluster_of;

use super::cell_view::{CellView, Source};
use super::resource_template::ResourceTemplate;
use super::status::{RememberedCell, saturated};

/// The share of each item, sorted by name: of a cell, or of a lower hub.
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

/// Returns the share of each item. Returns `None` if an item does not report a share.
pub(super) fn shares<'k>(
    items: &'k [CellView<'_, '_>],
    template: &ResourceTemplate<'_>,
) -> Option<CellShares<'k>> {
    items
        .iter()
        .map(|item| {
            let Source::Report(report) = item.source else {
                return None;
            };
            let generations = report.generations;
            let share = share(
                template.replicas,
                generations.assigned_replicas.map(i64::from),
                generations.assigned_min_replicas.map(i64::from),
            );
            Some((item.name?, saturated(share?.max(0))))
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
    adds_up
        && !has_zero
        && !(total_changed
            && former_shares(remembered)
                .into_iter()
                .eq(shares.iter().copied()))
}

/// Returns the remembered share of each item. The share of a lower hub is the sum of the shares of its cells with
/// Divided. With Duplicated, each of them equals the total.
fn former_shares<'k>(remembered: &'k [RememberedCell<'_>]) -> BTreeMap<&'k str, i32> {
    struct Former {
        sum: i32,
        /// The total, while each share equals it.
        each: Option<i32>,
    }
    let mut items = BTreeMap::new();
    for cell in remembered {
        let Some(share) = cell.assigned_replicas else {
            continue;
        };
        let former = items.entry(cluster_of(&cell.name)).or_insert(Former {
            sum: 0,
            each: Some(share),
        });
        former.sum = former.sum.saturating_add(share);
        former.each = former
            .each
            .filter(|each| *each == share && cell.template_replicas == Some(share));
    }
    let share = |former: Former| former.each.unwrap_or(former.sum);
    items
        .into_iter()
        .map(|(name, it)| (name, share(it)))
        .collect()
}

/// Returns the share of a cell. `shares` are those of the items.
pub(super) fn share_of(
    shares: &CellShares<'_>,
    index: usize,
    cell: &CellView<'_, '_>,
) -> Option<i32> {
    if let Some(entry) = cell.entry_below() {
        return entry.assigned_replicas;
    }
    let name = cluster_of(cell.name?);
    // If no item is of a lower hub, the order of the shares is the order of the cells.
    let at = shares.get(index).filter(|(of, _)| *of == name);
    let found = || {
        let index = shares.binary_search_by(|(of, _)| (*of).cmp(name)).ok()?;
        shares.get(index)
    };
    at.or_else(found).map(|(_, share)| *share)
}
