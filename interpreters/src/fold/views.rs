//! The views of the items and of the cells of a fold.
//!
//! An item is of a cell, or of a lower hub: a Karmada that is a Cluster of this hub (docs/concepts/status.md#lower-hubs).
//! The object of a lower hub has a status that the fold there has written. Which generation it is about, and its share,
//! are facts of the item. Counters and conditions are facts of the cells.

use std::iter;

use api::cells_below::is_below;

use super::cell_view::CellView;
use super::cells::{NamedContribution, StatusFold};
use super::lower_hub::CellBelow;
use super::memory::CellsByName;
use super::status::{Counters, StatusView};

/// The views of a fold.
pub(super) struct Views<'f, 'a> {
    /// The view of each item, sorted by name.
    items: Vec<CellView<'f, 'a>>,
    /// The view of each cell below a lower hub, sorted by name.
    below: Vec<CellView<'f, 'a>>,
    /// Whether the cells of an item are in `below`, for each item. Empty if none is.
    expanded: Vec<bool>,
    /// Whether there is exactly one cell, so the status is that of the cell.
    is_single: bool,
}

impl<'f, 'a> Views<'f, 'a> {
    /// Returns the views of a fold, from the reports or from the last reports in the former status. `below` are the cells
    /// that lower hubs report.
    pub(super) fn of(
        fold: &'f StatusFold<'a>,
        below: &'f [CellBelow<'f, 'a>],
        former: &'f StatusView<'a>,
        memory: &CellsByName<'f, 'a>,
    ) -> Self {
        if is_unnamed(fold, former) {
            return Self {
                items: vec![CellView::of_hub_status(None, former)],
                below: Vec::new(),
                expanded: Vec::new(),
                is_single: true,
            };
        }
        let is_single = fold.cells.len() == 1;
        let view = |item| item_view(item, former, memory, is_single);
        let mut views = Self {
            items: fold.cells.iter().map(view).collect(),
            below: Vec::new(),
            expanded: Vec::new(),
            is_single,
        };
        if !below.is_empty() || memory.has_lower_hubs {
            views.expand(fold, below, former, memory);
        }
        views
    }

    /// Adds the cells below lower hubs.
    fn expand(
        &mut self,
        fold: &'f StatusFold<'a>,
        below: &'f [CellBelow<'f, 'a>],
        former: &'f StatusView<'a>,
        memory: &CellsByName<'f, 'a>,
    ) {
        self.below.reserve_exact(below.len());
        self.below.extend(below.iter().map(CellView::of_cell_below));
        let mut has_entries = below.iter().any(|cell| cell.entry().is_some());
        self.expanded.reserve_exact(fold.cells.len());
        for (name, item) in &fold.cells {
            let is_expanded = match item.report_of_cells() {
                Some(report) => report.names_cells(),
                None => {
                    let before = self.below.len();
                    if let Some(cell) = former.reporting_cell().filter(|it| is_below(it, name)) {
                        self.below.push(CellView::of_hub_status(Some(cell), former));
                    } else {
                        let cells = memory.below(name).map(CellView::of_memory_below);
                        self.below.extend(cells);
                        has_entries |= self.below.len() > before;
                    }
                    self.below.len() > before
                }
            };
            self.expanded.push(is_expanded);
        }
        self.below
            .sort_unstable_by(|one, other| one.name.cmp(&other.name));
        // The names of a lower hub's report are its own affair.
        self.below.dedup_by(|next, kept| next.name == kept.name);
        // With entries, the lower hub has or had several cells, and one of them may never have reported.
        self.is_single &= !has_entries && self.below.len() <= 1;
    }

    /// Returns the view of each item: whether it is current, and its share, are decided by it.
    pub(super) fn items(&self) -> &[CellView<'f, 'a>] {
        &self.items
    }

    /// Returns the view of each cell, sorted by name.
    pub(super) fn cells(&self) -> impl Iterator<Item = &CellView<'f, 'a>> + Clone {
        // Without cells below, the cells are the items. Merging takes longer.
        let (all, merged) = match self.below.is_empty() {
            true => (&*self.items, &[][..]),
            false => (&[][..], &*self.items),
        };
        let items = merged.iter().zip(&self.expanded);
        let mut items = items.filter_map(|(item, is_expanded)| (!is_expanded).then_some(item));
        let mut below = self.below.iter();
        let (mut item, mut cell) = (items.next(), below.next());
        let merged = iter::from_fn(move || match (item, cell) {
            (Some(next), cell) if cell.is_none_or(|cell| next.name < cell.name) => {
                item = items.next();
                Some(next)
            }
            _ => std::mem::replace(&mut cell, below.next()),
        });
        all.iter().chain(merged)
    }

    /// Returns the only cell, if the status is that of this cell.
    pub(super) fn single(&self) -> Option<&CellView<'f, 'a>> {
        self.cells().next().filter(|_| self.is_single)
    }
}

/// Returns whether the former status is that of a single cell, but without the name of the cell, and no cell reports.
/// Former versions wrote such a status. Its counters are used until a cell reports. The status gets no name, because
/// another cell may have replaced the single cell.
fn is_unnamed(fold: &StatusFold<'_>, former: &StatusView<'_>) -> bool {
    former.reporting_cell().is_none()
        && former.cells().is_empty()
        && (former.counters() != Counters::default() || !former.conditions.is_empty())
        && !fold.cells.is_empty()
        && fold
            .cells
            .iter()
            .all(|(_, cell)| cell.report_of_cells().is_none())
}

/// Returns the view of an item. `is_single` is whether it is the only one.
fn item_view<'f, 'a>(
    (name, item): &'f NamedContribution<'a>,
    former: &'f StatusView<'a>,
    memory: &CellsByName<'f, 'a>,
    is_single: bool,
) -> CellView<'f, 'a> {
    match item.report_of_cells() {
        Some(report) => CellView::of_report(name, report, item.is_current()),
        None if former.reporting_cell() == Some(name.as_ref()) => {
            CellView::of_hub_status(Some(name), former)
        }
        None => {
            let memory = memory.get(name);
            let mut view = CellView::of_memory(name, memory);
            view.whole = memory.filter(|_| is_single).map(|_| former);
            view
        }
    }
}
