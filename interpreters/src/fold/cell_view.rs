//! The known state of one cell, and whether the cell has acted on the hub object.

use std::borrow::Cow;

use super::condition::ConditionView;
use super::resource_template::ResourceTemplate;
use super::status::{Counters, RememberedCell, StatusView};

/// The known state of one cell, or of a lower hub as a whole. The source is the current report, or the last report in
/// the former status. A view only refers to the state, because there can be a hundred thousand cells.
#[derive(Clone)]
pub(super) struct CellView<'f, 'a> {
    /// `None` if the source is a hub status that does not contain the name of its cell.
    name: Option<Cow<'f, str>>,
    /// The status with all other fields: the report, or the hub status of a single cell.
    pub(super) whole: Option<&'f StatusView<'a>>,
    pub(super) source: Source<'f, 'a>,
    state: CellState<'f, 'a>,
    /// The generation of the template on which the cell has acted.
    resource_template_generation: Option<i64>,
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
    /// An entry in the report of a lower hub.
    Below(&'f RememberedCell<'a>),
    Nothing,
}

impl<'f, 'a> CellView<'f, 'a> {
    pub(super) fn of_report(
        name: Cow<'f, str>,
        report: &'f StatusView<'a>,
        is_current: bool,
    ) -> Self {
        Self {
            name: Some(name),
            whole: Some(report),
            source: if is_current {
                Source::Report(report)
            } else {
                Source::Memory
            },
            state: CellState::Report(report),
            resource_template_generation: report.generations.resource_template_generation,
        }
    }

    /// Creates a view of the only cell below a lower hub from the report of the lower hub. `remembered` is the entry of
    /// the cell in the former status.
    pub(super) fn of_only_cell_below(
        name: String,
        report: &'f StatusView<'a>,
        is_current: bool,
        remembered: Option<&RememberedCell<'a>>,
    ) -> Self {
        let generations = report.generations;
        let has_acted = generations.generation == generations.observed_generation;
        let remembered = remembered.and_then(|it| it.resource_template_generation);
        Self {
            resource_template_generation: match has_acted {
                true => generations.resource_template_generation,
                false => remembered,
            },
            ..Self::of_report(name.into(), report, is_current)
        }
    }

    /// Creates a view from a hub status that is the last report of a single cell. `name` is `None` if the hub status
    /// does not contain the name of the cell.
    pub(super) fn of_hub_status(name: Option<&'f str>, status: &'f StatusView<'a>) -> Self {
        Self {
            name: name.map(Cow::Borrowed),
            whole: Some(status),
            source: Source::Memory,
            state: CellState::HubStatus(status),
            resource_template_generation: None,
        }
    }

    pub(super) fn of_memory(name: Cow<'f, str>, memory: Option<&'f RememberedCell<'a>>) -> Self {
        Self {
            name: Some(name),
            whole: None,
            source: if memory.is_some() {
                Source::Memory
            } else {
                Source::Nothing
            },
            state: memory.map_or(CellState::Nothing, CellState::Memory),
            resource_template_generation: memory.and_then(|it| it.resource_template_generation),
        }
    }

    /// Creates a view from the entry of a cell in the report of its lower hub. `remembered` is the entry of the cell in
    /// the former status.
    ///
    /// The entry counts the generations of the lower hub's object. If the cell has acted on the current one, it has acted
    /// on the generation of the template that the lower hub has.
    pub(super) fn of_cell_below(
        name: String,
        entry: &'f RememberedCell<'a>,
        lower_hub: &StatusView<'a>,
        remembered: Option<&RememberedCell<'a>>,
    ) -> Self {
        let generations = lower_hub.generations;
        let generation = match entry.resource_template_generation {
            Some(it) if generations.generation == Some(it) => {
                generations.resource_template_generation
            }
            _ => remembered.and_then(|it| it.resource_template_generation),
        };
        Self {
            name: Some(name.into()),
            whole: None,
            source: Source::Memory,
            state: CellState::Below(entry),
            resource_template_generation: generation,
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether this is a current report.
    pub(super) fn is_report(&self) -> bool {
        matches!(self.source, Source::Report(_))
    }

    /// Returns the share that the lower hub remembers for this cell. Returns `None` unless the view is of an entry in
    /// the report of a lower hub.
    pub(super) fn share_below(&self) -> Option<Option<i32>> {
        match self.state {
            CellState::Below(entry) => Some(entry.assigned_replicas),
            _ => None,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => status.counters(),
            CellState::Memory(cell) | CellState::Below(cell) => cell.counters(),
            CellState::Nothing => Counters::default(),
        }
    }

    pub(super) fn conditions(&self) -> &'f [ConditionView<'a>] {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => &status.conditions,
            CellState::Memory(cell) | CellState::Below(cell) => &cell.conditions.list,
            CellState::Nothing => &[],
        }
    }

    /// Returns the text of the conditions in the form that the fold writes, if this text is known.
    pub(super) fn conditions_text(&self) -> Option<&'a str> {
        match self.state {
            CellState::Report(status) | CellState::HubStatus(status) => status.conditions_text.0,
            CellState::Memory(cell) | CellState::Below(cell) => cell.conditions.text.0,
            CellState::Nothing => None,
        }
    }

    pub(super) fn resource_template_generation(&self) -> Option<i64> {
        self.resource_template_generation
    }

    pub(super) fn carries_observed_generation(&self) -> bool {
        match self.source {
            Source::Report(report) => {
                report.generations.observed_generation.is_some() || report.names_cells()
            }
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
