//! What others know of the cells: that one cannot be reached, or that one ought to be among the items.
//!
//! A cell that dies makes no call, and its last status goes on being shown as current (karmada.md 12, 6). Whoever watches
//! the Clusters marks what such a cell said last. Marking changes nothing but `Available` and `CellsReporting`: the last
//! known counters and all other conditions stay.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;

use super::{Contribution, Silence, StatusFold, UNNAMED};

/// Why nothing new can be known of a cell. Of two of one cell, the one that began first stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreachable<'a> {
    /// Since when the cell is known not to be reachable: when its Cluster ceased to be Ready. Shown in whole seconds.
    pub since: Timestamp,
    /// Why, for people. May be empty.
    pub message: Cow<'a, str>,
}

/// The cells that cannot be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks<'a>(BTreeMap<Cow<'a, str>, Unreachable<'a>>);

impl<'a> StatusFold<'a> {
    /// The names of all cells, sorted.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|(name, _)| name.as_ref())
    }

    /// A cell that the object is meant for. Where no item names it, it is one that has not applied the object, as if there
    /// were an item with nothing but its name.
    pub fn expect(&mut self, cell: impl Into<Cow<'a, str>>) {
        let name = named(cell);
        if let Err(index) = self.cells.binary_search_by(|(other, _)| other.cmp(&name)) {
            let silence = Silence::NotApplied {
                message: Cow::default(),
            };
            let nothing = Contribution {
                report: None,
                silence: Some(silence),
            };
            self.cells.insert(index, (name, nothing));
        }
    }

    /// A cell that cannot be reached. Where no item names it, it is [expected](Self::expect), too.
    pub fn mark(&mut self, cell: impl Into<Cow<'a, str>>, unreachable: Unreachable<'a>) {
        let name = named(cell);
        self.expect(name.clone());
        self.marks.add(name, unreachable);
    }
}

impl<'a> Marks<'a> {
    fn add(&mut self, cell: Cow<'a, str>, unreachable: Unreachable<'a>) {
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

    /// Those of both.
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

    /// Since when there is a mark at all.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.0.values().map(|unreachable| unreachable.since).min()
    }

    /// Since when what is known of a cell is not known to be so any more. What does not name its cell may be of any that
    /// is marked.
    pub(super) fn since(&self, name: Option<&str>) -> Option<Timestamp> {
        match name {
            Some(name) => self.of_cell(name).map(|unreachable| unreachable.since),
            None => self.earliest(),
        }
    }
}

/// The name under which an item of this cell is kept.
fn named<'a>(cell: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    match cell.into() {
        name if name.is_empty() => UNNAMED.into(),
        name => name,
    }
}
