//! The fold and its entries: one contribution per cell, by name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cell_name::{checked_name_above, kept_name};
use super::status::StatusView;
use super::unreachable::{Unreachable, UnreachableCells};
use api::cells_below::cells_below;
use api::decode::{for_each_of, from_str};
use api::identity::cluster_of;

/// The reports of the cells of one WorkloadDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFold<'a> {
    /// Sorted by name. Each name is unique.
    pub(super) cells: Vec<NamedContribution<'a>>,
    /// The unreachable cells. Each of these cells is also in `cells`.
    pub(super) unreachable: UnreachableCells<'a>,
}

/// The name of a cell, with its contribution.
pub(crate) type NamedContribution<'a> = (Cow<'a, str>, CellContribution<'a>);

/// The contribution of one cell. If two items have the same cell, the fold keeps the greater contribution. The greater
/// contribution has more information.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellContribution<'a> {
    /// The status in the item. If `missing` is set, this status is the last status before the reports stopped.
    pub(super) report: Option<Box<StatusView<'a>>>,
    /// The reason why there is no current report.
    pub(super) missing: Option<MissingReport<'a>>,
}

/// The reason why a cell has no current report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MissingReport<'a> {
    /// Karmada has not applied the object in the cell. The message may be empty.
    NotApplied { message: Cow<'a, str> },
    /// Karmada has applied the object, but the status in the item is absent or malformed.
    NotReported,
}

/// Karmada's `AggregatedStatusItem`. `S` is the view of the status. See docs/concepts/status.md.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AggregatedItem<'a, S> {
    #[serde(borrow, default)]
    cluster_name: Cow<'a, str>,
    status: Option<S>,
    #[serde(default)]
    applied: bool,
    #[serde(borrow, default)]
    applied_message: Cow<'a, str>,
}

impl<'a, S> AggregatedItem<'a, S> {
    /// Returns the contribution of the cell. `status` returns `None` if the status is malformed.
    pub(crate) fn contribution(
        self,
        status: impl Fn(S) -> Option<StatusView<'a>>,
    ) -> NamedContribution<'a> {
        let report = self.status.and_then(status).map(Box::new);
        let contribution = CellContribution::new(report, self.applied, self.applied_message);
        (self.cluster_name, contribution)
    }
}

/// The name in an item. Used if the other fields of the item cannot be decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemName<'a> {
    #[serde(borrow, default)]
    cluster_name: Cow<'a, str>,
}

impl<'a> ItemName<'a> {
    /// Returns the name in an item. Returns an empty one if it cannot be decoded.
    fn of(item: &'a RawValue) -> Cow<'a, str> {
        if !item.get().starts_with('{') {
            // An error for each of a million elements would take long.
            return Cow::default();
        }
        let item = from_str::<Self>(item.get());
        item.map(|item| item.cluster_name).unwrap_or_default()
    }
}

impl<'a> StatusFold<'a> {
    /// Reads a list of `AggregatedStatusItem` in any JSON form.
    ///
    /// # Errors
    ///
    /// An error if the text is not a JSON list.
    pub fn of_items(items: &'a str) -> Result<Self, serde_json::Error> {
        let mut collector = ItemCollector::new(0);
        for_each_of(items, |item| {
            let (name, cell) = CellContribution::of_item(item);
            collector.push(name, cell);
        })?;
        Ok(collector.into_fold())
    }

    /// Reads the names of all cells in a list of `AggregatedStatusItem`. They are those of [`cells`](Self::cells), but the
    /// statuses are not read.
    ///
    /// # Errors
    ///
    /// An error if the text is not a JSON list.
    pub fn names_in(items: &'a str) -> Result<BTreeSet<Cow<'a, str>>, serde_json::Error> {
        let mut names = BTreeSet::new();
        for_each_of(items, |item| {
            names.insert(kept_name(ItemName::of(item)));
        })?;
        Ok(names)
    }

    /// Reads one `AggregatedStatusItem`. A malformed item counts as a cell without a report. An error for one item
    /// would also stop the reports of all other cells.
    pub fn of_item(item: &'a RawValue) -> Self {
        let (name, cell) = CellContribution::of_item(item);
        Self::of(vec![(kept_name(name), cell)])
    }

    /// Sorts the contributions by name. If a cell has several contributions, keeps the greatest one.
    fn of(mut cells: Vec<NamedContribution<'a>>) -> Self {
        if !cells.is_sorted_by(|(one, _), (next, _)| one < next) {
            cells.sort_by(|one, other| other.cmp(one));
            cells.dedup_by(|(less, _), (greatest, _)| less == greatest);
            cells.reverse();
        }
        Self {
            cells,
            unreachable: UnreachableCells::default(),
        }
    }

    /// Joins two folds. The operation is commutative, associative and idempotent.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.cells.extend(other.cells);
        Self {
            unreachable: self.unreachable.merge(other.unreachable),
            ..Self::of(self.cells)
        }
    }

    /// Returns the names of all cells, sorted. A lower hub counts as a cell.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|(name, _)| name.as_ref())
    }

    /// Returns the names of the cells below lower hubs: those that the reports contain, and the `remembered` ones of lower
    /// hubs that do not report. `remembered` are the names of the cells in the former status.
    pub fn cells_below<'r>(
        &self,
        remembered: &(impl Iterator<Item = &'r str> + Clone),
    ) -> Vec<String> {
        let mut cells = Vec::new();
        let remembered = remembered.clone().filter(|cell| cluster_of(cell) != *cell);
        let mut remembered: Vec<_> = remembered.collect();
        remembered.sort_unstable();
        for (name, item) in &self.cells {
            match item.report_of_cells() {
                Some(report) => {
                    let several = report.cells().iter().map(|cell| cell.name.as_ref());
                    let reported = several.chain(report.only_cell());
                    cells.extend(reported.map(|cell| checked_name_above(name, cell)));
                }
                None => {
                    let below = cells_below(&remembered, name, |cell| cell);
                    cells.extend(below.iter().map(|cell| (*cell).to_owned()));
                }
            }
        }
        cells
    }

    /// Adds the cells to which the object is scheduled. If the items do not contain a cell, the object counts as not
    /// applied in the cell. An item that contains only a cluster name has the same effect.
    pub fn expect<C: Into<Cow<'a, str>>>(&mut self, cells: impl IntoIterator<Item = C>) {
        // An item that contains only a cluster name is the least contribution of its cell.
        let expected = cells.into_iter().map(|cell| {
            let contribution = CellContribution::new(None, false, Cow::default());
            (kept_name(cell), contribution)
        });
        let mut all = mem::take(&mut self.cells);
        all.extend(expected);
        self.cells = Self::of(all).cells;
    }

    /// Marks cells as unreachable. If the items do not contain such a cell, also adds the cell (see
    /// [`expect`](Self::expect)). A mark of a lower hub is also one of each cell below it. A cell below a lower hub must
    /// be one of [`cells_below`](Self::cells_below).
    pub fn mark_unreachable<C: Into<Cow<'a, str>>>(
        &mut self,
        marks: impl IntoIterator<Item = (C, Unreachable<'a>)>,
    ) {
        let mut names = Vec::new();
        for (cell, unreachable) in marks {
            let cell = cell.into();
            let is_below = cluster_of(&cell) != cell;
            let name = if is_below { cell } else { kept_name(cell) };
            if !is_below {
                names.push(name.clone());
            }
            self.unreachable.add(name, unreachable);
        }
        self.expect(names);
    }
}

/// Collects contributions. Removes duplicates during collection, so that a long list with only one cell needs little
/// memory.
pub(crate) struct ItemCollector<'a> {
    cells: Vec<NamedContribution<'a>>,
    /// The number of contributions at which duplicates are removed.
    limit: usize,
}

impl<'a> ItemCollector<'a> {
    /// The smallest limit, in contributions. Most objects are in fewer cells.
    const LIMIT: usize = 64;

    pub(crate) fn new(expected: usize) -> Self {
        Self {
            cells: Vec::with_capacity(expected),
            limit: Self::LIMIT,
        }
    }

    pub(crate) fn push(&mut self, name: Cow<'a, str>, cell: CellContribution<'a>) {
        self.cells.push((kept_name(name), cell));
        if self.cells.len() >= self.limit {
            self.cells = StatusFold::of(mem::take(&mut self.cells)).cells;
            self.limit = Self::LIMIT.max(2 * self.cells.len());
        }
    }

    pub(crate) fn into_fold(mut self) -> StatusFold<'a> {
        self.cells.shrink_to_fit();
        StatusFold::of(self.cells)
    }
}

impl<'a> CellContribution<'a> {
    pub(crate) fn new(
        report: Option<Box<StatusView<'a>>>,
        applied: bool,
        message: Cow<'a, str>,
    ) -> Self {
        let missing = if !applied {
            Some(MissingReport::NotApplied { message })
        } else if report.is_none() {
            Some(MissingReport::NotReported)
        } else {
            None
        };
        Self { report, missing }
    }

    /// Reads one `AggregatedStatusItem` in any JSON form.
    pub(crate) fn of_item(item: &'a RawValue) -> NamedContribution<'a> {
        let is_object = item.get().starts_with('{');
        match is_object.then(|| from_str::<AggregatedItem<'a, &'a RawValue>>(item.get())) {
            Some(Ok(item)) => item.contribution(|status| StatusView::parse(status.get())),
            None | Some(Err(_)) => {
                let malformed = Self::new(None, true, Cow::default());
                (ItemName::of(item), malformed)
            }
        }
    }

    /// Returns the report. A lower hub to which no cell has ever reported says nothing of its cells. One that has no
    /// report any more counts as a cell with the last numbers.
    pub(super) fn report_of_cells(&self) -> Option<&StatusView<'a>> {
        let report = self.report.as_deref();
        report.filter(|report| {
            report.names_cells() || report.has_no_report() || !report.is_of_lower_hub()
        })
    }

    /// Returns whether the report is a current one. That of a lower hub is current if all of its cells report.
    pub(super) fn is_current(&self) -> bool {
        let report = self.report.as_deref();
        self.missing.is_none() && report.is_some_and(|it| it.problem_below().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_a_list_are_those_of_its_fold() {
        for items in [
            "[]",
            r#"[{"clusterName":"b","applied":true,"status":{"replicas":1}},{"clusterName":"a"},{"clusterName":"b"}]"#,
            r#"[{"clusterName":"a","applied":"yes"},{"clusterName":"a","clusterName":"b"},{"clusterName":7},{}]"#,
            r#"[{"clusterName":"a.b"},{"clusterName":"\u0061"},{"status":"text","clusterName":"c"},[],1,null]"#,
        ] {
            let fold = StatusFold::of_items(items).unwrap();
            let names = StatusFold::names_in(items).unwrap();
            assert!(names.iter().eq(fold.cells()), "{items}: {names:?}");
        }
        for items in ["", "{}", "[1", "null"] {
            assert!(StatusFold::of_items(items).is_err(), "{items}");
            assert!(StatusFold::names_in(items).is_err(), "{items}");
        }
    }
}
