//! Unreachable cells.
//!
//! An unreachable cell sends no updates, so Karmada keeps its last status as if it were current
//! (docs/concepts/karmada-behaviour.md). The controller that watches Clusters marks unreachable cells. A mark changes
//! only `Available` and `CellsReporting`. The last counters and all other conditions stay the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api::cells_below::with_lower_hubs;
use jiff::Timestamp;

/// The mark of an unreachable cell. If one cell has two marks, the fold keeps the mark with the earlier time. If the
/// times are equal, the fold keeps the mark with the lesser message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreachable<'a> {
    /// Time when the Cluster became not Ready. Shown in whole seconds.
    pub since: Timestamp,
    /// The reason for users. May be empty.
    pub message: Cow<'a, str>,
}

/// The unreachable cells, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnreachableCells<'a>(BTreeMap<Cow<'a, str>, Unreachable<'a>>);

impl<'a> UnreachableCells<'a> {
    pub(super) fn add(&mut self, cell: Cow<'a, str>, unreachable: Unreachable<'a>) {
        match self.0.entry(cell) {
            Entry::Vacant(entry) => {
                entry.insert(unreachable);
            }
            Entry::Occupied(mut entry) => {
                if unreachable < *entry.get() {
                    entry.insert(unreachable);
                }
            }
        }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        for (cell, unreachable) in other.0 {
            self.add(cell, unreachable);
        }
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of_cell(&self, name: &str) -> Option<&Unreachable<'a>> {
        self.0.get(name)
    }

    /// Returns the time at which the first cell became unreachable.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.0.values().map(|unreachable| unreachable.since).min()
    }

    /// Returns the time since which a view of this cell is outdated: since the cell, or a lower hub that it is below,
    /// is unreachable. A view without a name can be of any unreachable cell, so the earliest time is used.
    pub(super) fn since(&self, name: Option<&str>) -> Option<Timestamp> {
        let Some(name) = name else {
            return self.earliest();
        };
        let marks = with_lower_hubs(name).filter_map(|it| self.of_cell(it));
        marks.map(|unreachable| unreachable.since).min()
    }
}
