//! Joins what several cells report about one WorkloadDeployment into one status.
//!
//! [`StatusFold`] is a value keyed by cell. Its merge is commutative, associative and idempotent: folding groups of
//! cells first and then the groups gives the same value, and so the same bytes. [`StatusFold::render`] reads it
//! together with the object that the status is for, whose former status is the memory of cells that are silent.
//!
//! Who knows more than the items say, [marks](StatusFold::mark) the cells that cannot be reached and names those that are
//! [expected](StatusFold::expect), or [proves](no_matching_cell) that no cell is meant at all. `AggregateStatus` never does.

mod available;
mod canonical;
mod condition;
mod entry;
mod join;
mod known;
mod marks;
mod nowhere;
mod render;
mod report;
mod reporting;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::cursor::{Cursor, OtherForm};
use marks::Marks;

pub use known::share;
pub use marks::Unreachable;
pub use nowhere::no_matching_cell;
pub(crate) use report::Report;

/// The name under which an item is kept that names no cell.
const UNNAMED: &str = "unnamed";

/// What the cells of one WorkloadDeployment say, by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFold<'a> {
    /// Sorted by name, each cell once.
    cells: Vec<Named<'a>>,
    /// Each of them is among the cells.
    marks: Marks<'a>,
}

/// What a cell says, with its name.
type Named<'a> = (Cow<'a, str>, Contribution<'a>);

/// What one cell says. The order decides which of two contributions of one cell stays: one that says more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contribution<'a> {
    /// The status that came with the item. While the cell is silent it is what the cell said last.
    report: Option<Report<'a>>,
    /// Why the cell cannot be taken at its word.
    silence: Option<Silence<'a>>,
}

/// Why a cell says nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Silence<'a> {
    /// Karmada has not applied the object in the cell, and perhaps says why.
    NotApplied { message: Cow<'a, str> },
    /// The object is applied, but there is no status of it, or none that can be read.
    NotReported,
}

/// `AggregatedStatusItem` (karmada.md 4.1).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(borrow, default)]
    cluster_name: Cow<'a, str>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(default)]
    applied: bool,
    #[serde(borrow, default)]
    applied_message: Cow<'a, str>,
}

/// The one field that is read of an item that does not decode as a whole.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemName<'a> {
    #[serde(borrow, default)]
    cluster_name: Cow<'a, str>,
}

impl<'a> StatusFold<'a> {
    /// The fold over a list of `AggregatedStatusItem`, in any form.
    ///
    /// # Errors
    ///
    /// When the text is no list.
    pub fn of_items(items: &'a str) -> Result<Self, serde_json::Error> {
        let mut text = serde_json::Deserializer::from_str(items);
        let fold = text.deserialize_seq(Items(PhantomData))?;
        text.end().map(|()| fold)
    }

    /// The fold over one `AggregatedStatusItem`. One that cannot be read counts as a cell that does not report: an error
    /// would withhold what all other cells say.
    pub fn of_item(item: &'a RawValue) -> Self {
        Self::of(vec![Contribution::of_item(item)])
    }

    /// Reads a list of `AggregatedStatusItem`, of which so many are expected.
    pub(crate) fn read(cursor: &mut Cursor<'a>, expected: usize) -> Result<Self, OtherForm> {
        canonical::fold(cursor, expected)
    }

    /// Keeps of each cell what says most.
    fn of(mut cells: Vec<Named<'a>>) -> Self {
        for (name, _) in &mut cells {
            if name.is_empty() {
                *name = Cow::Borrowed(UNNAMED);
            }
        }
        if !cells.is_sorted_by(|(one, _), (next, _)| one < next) {
            cells.sort_by(|one, other| other.cmp(one));
            cells.dedup_by(|(less, _), (most, _)| less == most);
            cells.reverse();
        }
        Self {
            cells,
            marks: Marks::default(),
        }
    }

    /// Both together.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        Self {
            marks: self.marks.merge(other.marks),
            ..Self::of(self.cells)
        }
    }
}

/// Cells while they are gathered. However often one is named, it is kept once, so a long list of the same takes no room.
struct Gathered<'a> {
    cells: Vec<Named<'a>>,
    /// With so many, those that are kept are sought out.
    full: usize,
}

impl<'a> Gathered<'a> {
    /// More cells than there are.
    const FULL: usize = 10_000;

    fn new(expected: usize) -> Self {
        Self {
            cells: Vec::with_capacity(expected),
            full: Self::FULL,
        }
    }

    fn push(&mut self, cell: Named<'a>) {
        self.cells.push(cell);
        if self.cells.len() >= self.full {
            self.cells = StatusFold::of(mem::take(&mut self.cells)).cells;
            self.full = Self::FULL.max(2 * self.cells.len());
        }
    }

    fn fold(self) -> StatusFold<'a> {
        StatusFold::of(self.cells)
    }
}

/// Reads a list of `AggregatedStatusItem` in any form.
struct Items<'a>(PhantomData<StatusFold<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for Items<'a> {
    type Value = StatusFold<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of AggregatedStatusItem")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<StatusFold<'a>, S::Error> {
        let mut gathered = Gathered::new(0);
        while let Some(item) = items.next_element()? {
            gathered.push(Contribution::of_item(item));
        }
        Ok(gathered.fold())
    }
}

impl<'a> Contribution<'a> {
    fn new(report: Option<Report<'a>>, applied: bool, message: Cow<'a, str>) -> Self {
        let silence = if !applied {
            Some(Silence::NotApplied { message })
        } else if report.is_none() {
            Some(Silence::NotReported)
        } else {
            None
        };
        Self { report, silence }
    }

    fn of_item(item: &'a RawValue) -> Named<'a> {
        match serde_json::from_str::<Item<'a>>(item.get()) {
            Ok(item) => {
                let report = item.status.and_then(|status| Report::parse(status.get()));
                let contribution = Self::new(report, item.applied, item.applied_message);
                (item.cluster_name, contribution)
            }
            Err(_) => {
                let name = serde_json::from_str::<ItemName<'a>>(item.get());
                let unread = Self {
                    report: None,
                    silence: Some(Silence::NotReported),
                };
                (
                    name.map(|item| item.cluster_name).unwrap_or_default(),
                    unread,
                )
            }
        }
    }
}

/// The object that a status is rendered for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Template<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `spec.scaleSettings.minReplicas`.
    pub min_replicas: Option<i32>,
    /// `spec.replicas`.
    pub replicas: Option<i32>,
    /// `status` as JSON. It is the hub's, of which no cell was marked.
    pub status: Option<&'a str>,
    /// The conditions that are shown where the result goes, if that is not the object itself. A time that the hub's status
    /// does not give is theirs while the status of the condition stays.
    pub shown: &'a [api::Condition],
}
