//! Joins what several cells report about one WorkloadDeployment into one status.
//!
//! [`StatusFold`] is a value keyed by cell. Its merge is commutative, associative and idempotent: folding groups of
//! cells first and then the groups gives the same value, and so the same bytes. [`StatusFold::render`] reads it
//! together with the object that the status is for, whose former status is the memory of cells that are silent.

mod condition;
mod known;
mod render;
mod report;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use report::Report;

/// The name under which an item is kept that names no cell.
const UNNAMED: &str = "unnamed";

/// What the cells of one WorkloadDeployment say, by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFold<'a> {
    cells: BTreeMap<Cow<'a, str>, Contribution<'a>>,
}

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
pub(crate) struct Item<'a, S = Report<'a>> {
    #[serde(borrow, default)]
    cluster_name: Cow<'a, str>,
    status: Option<S>,
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
    /// The fold over a list of `AggregatedStatusItem`.
    ///
    /// # Errors
    ///
    /// When the text is no list.
    pub fn of_items(items: &'a str) -> Result<Self, serde_json::Error> {
        // As a rule all items decode, and then each is read once.
        if let Ok(items) = serde_json::from_str::<Vec<Item<'a>>>(items) {
            return Ok(items.into_iter().collect());
        }
        let items = serde_json::from_str::<Vec<&'a RawValue>>(items)?;
        Ok(items
            .into_iter()
            .map(Self::of_item)
            .fold(Self::default(), Self::merge))
    }

    /// The fold over one `AggregatedStatusItem`. One that cannot be read counts as a cell that does not report: an error
    /// would withhold what all other cells say.
    pub fn of_item(item: &'a RawValue) -> Self {
        let contribution = match serde_json::from_str::<Item<'a, &'a RawValue>>(item.get()) {
            Ok(item) => Contribution::from(Item {
                status: item.status.and_then(|status| Report::parse(status.get())),
                cluster_name: item.cluster_name,
                applied: item.applied,
                applied_message: item.applied_message,
            }),
            Err(_) => {
                let name = serde_json::from_str::<ItemName<'a>>(item.get());
                let name = name.map(|item| item.cluster_name).unwrap_or_default();
                (
                    name,
                    Contribution {
                        report: None,
                        silence: Some(Silence::NotReported),
                    },
                )
            }
        };
        let mut fold = Self::default();
        fold.add(contribution);
        fold
    }

    /// Keeps what a cell says, unless more is known of it.
    fn add(&mut self, (name, contribution): (Cow<'a, str>, Contribution<'a>)) {
        let name = if name.is_empty() {
            Cow::Borrowed(UNNAMED)
        } else {
            name
        };
        match self.cells.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(contribution);
            }
            Entry::Occupied(mut entry) => {
                if *entry.get() < contribution {
                    entry.insert(contribution);
                }
            }
        }
    }

    /// Both together.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        other.cells.into_iter().for_each(|cell| self.add(cell));
        self
    }
}

impl<'a> FromIterator<Item<'a>> for StatusFold<'a> {
    fn from_iter<T: IntoIterator<Item = Item<'a>>>(items: T) -> Self {
        let mut fold = Self::default();
        for item in items {
            fold.add(Contribution::from(item));
        }
        fold
    }
}

impl<'a> Contribution<'a> {
    fn from(item: Item<'a>) -> (Cow<'a, str>, Self) {
        let report = item.status.and_then(Report::checked);
        let silence = if !item.applied {
            Some(Silence::NotApplied {
                message: item.applied_message,
            })
        } else if report.is_none() {
            Some(Silence::NotReported)
        } else {
            None
        };
        (item.cluster_name, Self { report, silence })
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
    /// `status` as JSON.
    pub status: Option<&'a str>,
}
