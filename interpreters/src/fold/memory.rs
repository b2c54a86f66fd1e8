//! The memory of the cells in the former status (docs/concepts/status.md#memory).

use api::cells_below::cells_below;
use api::identity::CLUSTER_SEPARATOR;

use super::status::{RememberedCell, StatusView};

/// The entries of `status.cells` of the former status, sorted by name.
pub(super) struct CellsByName<'f, 'a> {
    cells: Vec<&'f RememberedCell<'a>>,
    /// Whether one of them, or the reporting cell, is below a lower hub.
    pub(super) has_lower_hubs: bool,
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

    /// Returns the entries of the cells below a lower hub.
    pub(super) fn below(&self, lower_hub: &str) -> impl Iterator<Item = &'f RememberedCell<'a>> {
        let cells = cells_below(&self.cells, lower_hub, |cell| &cell.name);
        cells.iter().copied()
    }
}
