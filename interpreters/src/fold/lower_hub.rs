//! The cells below a lower hub, as the status of the lower hub's object reports them.

use super::cell_name::checked_name_above;
use super::cells::StatusFold;
use super::memory::CellsByName;
use super::status::{RememberedCell, StatusView};

/// A cell below a lower hub.
pub(super) struct CellBelow<'f, 'a> {
    pub(super) name: String,
    pub(super) report: ReportBelow<'f, 'a>,
    /// The generation of the template on which the cell has acted.
    pub(super) resource_template_generation: Option<i64>,
}

/// The report of a lower hub about one cell.
#[derive(Clone, Copy)]
pub(super) enum ReportBelow<'f, 'a> {
    /// The entry of one of several cells.
    Entry(&'f RememberedCell<'a>),
    /// The whole status, and whether it is current. It is that of the only cell.
    Only(&'f StatusView<'a>, bool),
}

impl<'f, 'a> CellBelow<'f, 'a> {
    /// Returns the cells that the lower hubs of a fold report. `memory` has the entries of the former status.
    pub(super) fn of_fold(fold: &'f StatusFold<'a>, memory: &CellsByName<'f, 'a>) -> Vec<Self> {
        let reports = || {
            let reports = fold.cells.iter();
            reports.filter_map(|(name, item)| {
                let report = item.report_of_cells().filter(|it| it.names_cells());
                report.map(|report| (name.as_ref(), item, report))
            })
        };
        let count = reports()
            .map(|(_, _, report)| report.cells().len().max(1))
            .sum();
        let mut below = Vec::with_capacity(count);
        for (lower_hub, item, report) in reports() {
            for entry in report.cells() {
                let name = checked_name_above(lower_hub, &entry.name);
                below.push(Self::of_entry(name, entry, report, memory));
            }
            if let Some(cell) = report.only_cell() {
                let name = checked_name_above(lower_hub, cell);
                below.push(Self::only(name, report, item.is_current(), memory));
            }
        }
        below
    }

    /// Returns the cell of an entry. The entry counts the generations of the lower hub's object. If the cell has acted on
    /// the current one, it has acted on the generation of the template that the lower hub has.
    fn of_entry(
        name: String,
        entry: &'f RememberedCell<'a>,
        lower_hub: &StatusView<'a>,
        memory: &CellsByName<'f, 'a>,
    ) -> Self {
        let acted = entry.resource_template_generation;
        let has_acted = acted.is_some() && acted == lower_hub.generations.generation;
        Self {
            resource_template_generation: template_generation(&name, has_acted, lower_hub, memory),
            report: ReportBelow::Entry(entry),
            name,
        }
    }

    /// Returns the only cell of a lower hub.
    fn only(
        name: String,
        lower_hub: &'f StatusView<'a>,
        is_current: bool,
        memory: &CellsByName<'f, 'a>,
    ) -> Self {
        let generations = lower_hub.generations;
        let has_acted = generations.generation == generations.observed_generation;
        Self {
            resource_template_generation: template_generation(&name, has_acted, lower_hub, memory),
            report: ReportBelow::Only(lower_hub, is_current),
            name,
        }
    }

    /// Returns the entry, if the cell is one of several.
    pub(super) fn entry(&self) -> Option<&'f RememberedCell<'a>> {
        match self.report {
            ReportBelow::Entry(entry) => Some(entry),
            ReportBelow::Only(..) => None,
        }
    }
}

/// Returns the generation of the template on which a cell has acted: that of the lower hub, or the remembered one.
fn template_generation(
    cell: &str,
    has_acted: bool,
    lower_hub: &StatusView<'_>,
    memory: &CellsByName<'_, '_>,
) -> Option<i64> {
    match has_acted {
        true => lower_hub.generations.resource_template_generation,
        false => memory.get(cell)?.resource_template_generation,
    }
}
