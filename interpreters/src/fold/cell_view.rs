//! The known state of one cell, and whether the cell has acted on the hub object.

use super::condition::ConditionView;
use super::lower_hub::{CellBelow, ReportBelow};
use super::resource_template::ResourceTemplate;
use super::status::{Counters, RememberedCell, StatusView};

/// The known state of one cell, or of a lower hub as a whole. The source is the current report, or the last report in
/// the former status. A view only refers to the state, because there can be a hundred thousand cells.
#[derive(Clone)]
pub(super) struct CellView<'f, 'a> {
    /// `None` if the source is a hub status that does not contain the name of its cell.
    pub(super) name: Option<&'f str>,
    /// The status with all other fields: the report, or the hub status of a single cell.
    pub(super) whole: Option<&'f StatusView<'a>>,
    pub(super) source: Source<'f, 'a>,
    state: CellState<'f, 'a>,
}

/// The source of a [`CellView`].
#[derive(Clone, Copy)]
pub(super) enum Source<'f, 'a> {
    /// A current report.
    Report(&'f StatusView<'a>),
    /// An earlier report.
    Memory,
    /// The cell has never reported.
    Nothing,
}

/// The object with the known state of a cell.
#[derive(Clone, Copy)]
enum CellState<'f, 'a> {
    Report(&'f StatusView<'a>),
    HubStatus(&'f StatusView<'a>),
    Memory(&'f RememberedCell<'a>),
    /// The report of a lower hub.
    Below(&'f CellBelow<'f, 'a>),
    Nothing,
}

impl<'f, 'a> CellView<'f, 'a> {
    pub(super) fn of_report(name: &'f str, report: &'f StatusView<'a>, is_current: bool) -> Self {
        Self {
            name: Some(name),
            whole: Some(report),
            source: if is_current {
                Source::Report(report)
            } else {
                Source::Memory
            },
            state: CellState::Report(report),
        }
    }

    /// Creates a view from a hub status that is the last report of a single cell. `name` is `None` if the hub status
    /// does not contain the name of the cell.
    pub(super) fn of_hub_status(name: Option<&'f str>, status: &'f StatusView<'a>) -> Self {
        Self {
            name,
            whole: Some(status),
            source: Source::Memory,
            state: CellState::HubStatus(status),
        }
    }

    pub(super) fn of_memory(name: &'f str, memory: Option<&'f RememberedCell<'a>>) -> Self {
        Self {
            name: Some(name),
            whole: None,
            source: if memory.is_some() {
                Source::Memory
            } else {
                Source::Nothing
            },
            state: memory.map_or(CellState::Nothing, CellState::Memory),
        }
    }

    /// Creates a view of a cell below a lower hub that does not report, from the former status.
    pub(super) fn of_memory_below(memory: &'f RememberedCell<'a>) -> Self {
        Self::of_memory(&memory.name, Some(memory))
    }

    /// Creates a view of a cell below a lower hub, from the report of the lower hub.
    pub(super) fn of_cell_below(cell: &'f CellBelow<'f, 'a>) -> Self {
        let (whole, source) = match cell.report {
            ReportBelow::Entry(_) => (None, Source::Memory),
            ReportBelow::Only(report, true) => (Some(report), Source::Report(report)),
            ReportBelow::Only(report, false) => (Some(report), Source::Memory),
        };
        Self {
            name: Some(&cell.name),
            whole,
            source,
            state: CellState::Below(cell),
        }
    }

    /// Returns the entry of the cell in the report of its lower hub.
    pub(super) fn entry_below(&self) -> Option<&'f RememberedCell<'a>> {
        match self.state {
            CellState::Below(cell) => cell.entry(),
            _ => None,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => status.counters(),
            CellState::Memory(cell) => cell.counters(),
            CellState::Below(cell) => match cell.report {
                ReportBelow::Entry(entry) => entry.counters(),
                ReportBelow::Only(status, _) => status.counters(),
            },
            CellState::Nothing => Counters::default(),
        }
    }

    pub(super) fn conditions(&self) -> &'f [ConditionView<'a>] {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => &status.conditions,
            CellState::Memory(cell) => &cell.conditions.list,
            CellState::Below(cell) => match cell.report {
                ReportBelow::Entry(entry) => &entry.conditions.list,
                ReportBelow::Only(status, _) => &status.conditions,
            },
            CellState::Nothing => &[],
        }
    }

    /// Returns the text of the conditions in the form that the fold writes, if this text is known.
    pub(super) fn conditions_text(&self) -> Option<&'a str> {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => status.conditions_text.0,
            CellState::Memory(cell) => cell.conditions.text.0,
            CellState::Below(cell) => match cell.report {
                ReportBelow::Entry(entry) => entry.conditions.text.0,
                ReportBelow::Only(status, _) => status.conditions_text.0,
            },
            CellState::Nothing => None,
        }
    }

    /// Returns the generation of the template on which the cell has acted.
    pub(super) fn resource_template_generation(&self) -> Option<i64> {
        match self.state {
            CellState::Report(status) => status.generations.resource_template_generation,
            CellState::Memory(cell) => cell.resource_template_generation,
            CellState::Below(cell) => cell.resource_template_generation,
            CellState::HubStatus(_) | CellState::Nothing => None,
        }
    }

    pub(super) fn carries_observed_generation(&self) -> bool {
        match self.source {
            Source::Report(report) => report.generations.observed_generation.is_some(),
            Source::Memory => true,
            Source::Nothing => false,
        }
    }

    /// Returns whether the report is about the current generation of the template, and the cell has processed its own
    /// generation. See docs/concepts/status.md.
    pub(super) fn is_current(&self, template: &ResourceTemplate<'_>) -> bool {
        let Source::Report(report) = self.source else {
            return false;
        };
        let generations = report.generations;
        generations.resource_template_generation.is_some()
            && generations.resource_template_generation == template.generation
            && generations.generation.is_some()
            && generations.generation == generations.observed_generation
    }
}
