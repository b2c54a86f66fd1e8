//! The views of the items and of the cells of a fold.
//!
//! An item is of a cell, or of a lower hub: a Karmada that is a Cluster of this hub (docs/concepts/status.md#lower-hubs).
//! The object of a lower hub has a status that the fold there has written. Which generation it is about, and its share,
//! are facts of the item. Counters and conditions are facts of the cells.

use api::identity::CLUSTER_SEPARATOR;

use super::cell_view::CellView;
use super::cells::{CellContribution, NamedContribution, StatusFold, kept_name};
use super::status::{Counters, RememberedCell, StatusView};

/// The views of a fold.
pub(super) struct Views<'f, 'a> {
    /// The view of each item, sorted by name.
    items: Vec<CellView<'f, 'a>>,
    /// The view of each cell, sorted by name. `None` if every item is of a cell.
    cells: Option<Vec<CellView<'f, 'a>>>,
    /// Whether there is exactly one cell, so the status is that of the cell.
    is_single: bool,
}

impl<'f, 'a> Views<'f, 'a> {
    /// Returns the views of a fold, from the reports or from the last reports in the former status.
    pub(super) fn of(
        fold: &'f StatusFold<'a>,
        former: &'f StatusView<'a>,
        memory: &CellsByName<'f, 'a>,
    ) -> Self {
        if is_unnamed(fold, former) {
            return Self {
                items: vec![CellView::of_hub_status(None, former)],
                cells: None,
                is_single: true,
            };
        }
        let is_single = fold.cells.len() == 1;
        let has_lower_hubs = fold.cells.iter().any(|(_, cell)| {
            let report = cell.report.as_ref();
            report.map_or(memory.has_lower_hubs, |it| it.is_of_lower_hub())
        });
        let items = fold.cells.iter();
        let items = items.map(|item| item_view(item, former, memory, is_single));
        let items = items.collect();
        if !has_lower_hubs {
            return Self {
                items,
                cells: None,
                is_single,
            };
        }
        let mut expanded = Expanded {
            former,
            memory,
            cells: Vec::new(),
            may_be_single: is_single,
        };
        for (item, view) in fold.cells.iter().zip(&items) {
            expanded.push(item, view);
        }
        let Expanded {
            mut cells,
            may_be_single,
            ..
        } = expanded;
        cells.sort_by(|one, other| one.name().cmp(&other.name()));
        cells.dedup_by(|next, kept| next.name() == kept.name());
        Self {
            is_single: may_be_single && cells.len() == 1,
            items,
            cells: Some(cells),
        }
    }

    /// Returns the view of each item: whether it is current, and its share, are decided by it.
    pub(super) fn items(&self) -> &[CellView<'f, 'a>] {
        &self.items
    }

    /// Returns the view of each cell.
    pub(super) fn cells(&self) -> &[CellView<'f, 'a>] {
        self.cells.as_deref().unwrap_or(&self.items)
    }

    /// Returns the only cell, if the status is that of this cell.
    pub(super) fn single(&self) -> Option<&CellView<'f, 'a>> {
        self.cells().first().filter(|_| self.is_single)
    }
}

/// Returns whether the former status is that of a single cell, but without the name of the cell, and no cell reports.
/// Former versions wrote such a status. Its counters are used until a cell reports. The status gets no name, because
/// another cell may have replaced the single cell.
fn is_unnamed(fold: &StatusFold<'_>, former: &StatusView<'_>) -> bool {
    former.reporting_cell().is_none()
        && former.cells().is_empty()
        && (former.counters() != Counters::default() || !former.conditions.is_empty())
        && !fold.cells.iter().any(|(_, cell)| cell.report.is_some())
        && !fold.cells.is_empty()
}

/// Returns the report of an item. A lower hub to which no cell has ever reported has nothing to say of its cells.
fn report_of_cells<'f, 'a>(item: &'f CellContribution<'a>) -> Option<&'f StatusView<'a>> {
    let report = item.report.as_deref();
    report.filter(|report| report.names_cells() || !report.is_of_lower_hub())
}

/// Returns the view of an item. `is_single` is whether it is the only one.
fn item_view<'f, 'a>(
    (name, item): &'f NamedContribution<'a>,
    former: &'f StatusView<'a>,
    memory: &CellsByName<'f, 'a>,
    is_single: bool,
) -> CellView<'f, 'a> {
    match report_of_cells(item) {
        Some(report) => {
            let is_current = item.missing.is_none() && report.problem_below().is_none();
            CellView::of_report(name.as_ref().into(), report, is_current)
        }
        None if former.reporting_cell() == Some(name.as_ref()) => {
            CellView::of_hub_status(Some(name), former)
        }
        None => {
            let memory = memory.get(name);
            let mut view = CellView::of_memory(name.as_ref().into(), memory);
            view.whole = memory.filter(|_| is_single).map(|_| former);
            view
        }
    }
}

/// Collects the cells of all items.
struct Expanded<'m, 'f, 'a> {
    former: &'f StatusView<'a>,
    memory: &'m CellsByName<'f, 'a>,
    cells: Vec<CellView<'f, 'a>>,
    /// False if a lower hub has, or had, several cells. One of them may never have reported.
    may_be_single: bool,
}

impl<'f, 'a> Expanded<'_, 'f, 'a> {
    /// Adds the cells of an item.
    fn push(&mut self, (name, item): &'f NamedContribution<'a>, view: &CellView<'f, 'a>) {
        match report_of_cells(item) {
            Some(report) if report.names_cells() => {
                let is_current = view.is_report();
                for cell in report.cells() {
                    let name = below(name, &cell.name);
                    let remembered = self.memory.get(&name);
                    self.cells
                        .push(CellView::of_cell_below(name, cell, report, remembered));
                    self.may_be_single = false;
                }
                if let Some(cell) = report.reporting_cell()
                    && report.cells().is_empty()
                {
                    let name = below(name, cell);
                    let remembered = self.memory.get(&name);
                    let view = CellView::of_only_cell_below(name, report, is_current, remembered);
                    self.cells.push(view);
                }
            }
            None => self.push_remembered(name, view),
            Some(_) => self.cells.push(view.clone()),
        }
    }

    /// Adds the cells of an item without a report, from the former status.
    fn push_remembered(&mut self, name: &'f str, view: &CellView<'f, 'a>) {
        let former = self.former;
        let is_below = |cell: &str| {
            let rest = cell.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(CLUSTER_SEPARATOR))
        };
        if let Some(cell) = former.reporting_cell().filter(|cell| is_below(cell)) {
            self.cells.push(CellView::of_hub_status(Some(cell), former));
            return;
        }
        let before = self.cells.len();
        let prefix = format!("{name}{CLUSTER_SEPARATOR}");
        let remembered = self.memory.from(&prefix);
        for cell in remembered.take_while(|cell| is_below(&cell.name)) {
            let mut view = CellView::of_memory(cell.name.as_ref().into(), Some(cell));
            view.whole = self.may_be_single.then_some(former);
            self.cells.push(view);
        }
        if self.cells.len() == before {
            self.cells.push(view.clone());
        }
    }
}

/// Returns the name of a cell below a lower hub.
pub(super) fn below(lower_hub: &str, cell: &str) -> String {
    format!("{lower_hub}{CLUSTER_SEPARATOR}{}", kept_name(cell))
}

/// The entries of `status.cells` of the former status, sorted by name.
pub(super) struct CellsByName<'f, 'a> {
    cells: Vec<&'f RememberedCell<'a>>,
    /// Whether one of them, or the reporting cell, is below a lower hub.
    has_lower_hubs: bool,
}

impl<'f, 'a> CellsByName<'f, 'a> {
    pub(super) fn of(former: &'f StatusView<'a>) -> Self {
        let mut cells: Vec<_> = former.cells().iter().collect();
        cells.sort_by(|one, other| one.name.cmp(&other.name));
        let names = cells.iter().map(|cell| cell.name.as_ref());
        let mut names = names.chain(former.reporting_cell());
        Self {
            has_lower_hubs: names.any(|name| name.contains(CLUSTER_SEPARATOR)),
            cells,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'f RememberedCell<'a>> {
        let index = self
            .cells
            .binary_search_by(|cell| cell.name.as_ref().cmp(name))
            .ok()?;
        self.cells.get(index).copied()
    }

    /// Returns the entries whose name is at least this one.
    fn from(&self, name: &str) -> impl Iterator<Item = &'f RememberedCell<'a>> {
        let index = self.cells.partition_point(|cell| cell.name.as_ref() < name);
        self.cells.iter().skip(index).copied()
    }
}
