//! Cells that cannot be reached.
//!
//! An unreachable cell sends no updates, so Karmada keeps showing its last status as current
//! (docs/concepts/karmada-behaviour.md). The controller that watches Clusters marks such cells. A mark changes only
//! `Available` and `CellsReporting`: the last counters and all other conditions stay.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;

/// Why a cell cannot be reached. If one cell has two marks, the lesser mark is kept: the one that began first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreachable<'a> {
    /// When the Cluster stopped being Ready. Shown in whole seconds.
    pub since: Timestamp,
    /// The reason shown to users. May be empty.
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

    /// Returns when the first cell became unreachable.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.0.values().map(|unreachable| unreachable.since).min()
    }

    /// Returns since when a view of this cell is outdated. A view without a name may belong to any unreachable cell.
    pub(super) fn since(&self, name: Option<&str>) -> Option<Timestamp> {
        match name {
            Some(name) => self.of_cell(name).map(|unreachable| unreachable.since),
            None => self.earliest(),
        }
    }
}
