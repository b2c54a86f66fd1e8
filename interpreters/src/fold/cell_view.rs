//! The known state of one cell, and whether the cell has acted on the hub object.

use super::condition::ConditionView;
use super::resource_template::ResourceTemplate;
use super::status::{Counters, RememberedCell, StatusView};

/// The known state of one cell. The source is the current report, or the last report in the former status.
pub(super) struct CellView<'f, 'a> {
    /// `None` if the source is a hub status that does not contain the name of its cell.
    pub(super) name: Option<&'f str>,
    pub(super) counters: Counters,
    pub(super) conditions: &'f [ConditionView<'a>],
    /// The text of the conditions in the form that the fold writes, if this text is known.
    pub(super) conditions_text: Option<&'a str>,
    pub(super) resource_template_generation: Option<i64>,
    /// The status with all other fields: the report, or the hub status of a single cell.
    pub(super) whole: Option<&'f StatusView<'a>>,
    pub(super) source: Source<'f, 'a>,
}

/// The source of a [`CellView`].
pub(super) enum Source<'f, 'a> {
    /// A current report.
    Report(&'f StatusView<'a>),
    /// An earlier report.
    Memory,
    /// The cell has never reported.
    Nothing,
}

impl<'f, 'a> CellView<'f, 'a> {
    pub(super) fn of_report(name: &'f str, report: &'f StatusView<'a>, is_current: bool) -> Self {
        Self {
            name: Some(name),
            counters: report.counters,
            conditions: &report.conditions,
            conditions_text: report.conditions_text.0,
            resource_template_generation: report.generations.resource_template_generation,
            whole: Some(report),
            source: if is_current {
                Source::Report(report)
            } else {
                Source::Memory
            },
        }
    }

    /// Creates a view from a hub status that is the last report of a single cell. `name` is `None` if the hub status does
    /// not contain the name of the cell.
    pub(super) fn of_hub_status(name: Option<&'f str>, status: &'f StatusView<'a>) -> Self {
        Self {
            name,
            counters: status.counters,
            conditions: &status.conditions,
            conditions_text: status.conditions_text.0,
            resource_template_generation: None,
            whole: Some(status),
            source: Source::Memory,
        }
    }

    pub(super) fn of_memory(name: &'f str, memory: Option<&'f RememberedCell<'a>>) -> Self {
        Self {
            name: Some(name),
            counters: memory.map(RememberedCell::counters).unwrap_or_default(),
            conditions: memory
                .map(|cell| cell.conditions.list.as_slice())
                .unwrap_or_default(),
            conditions_text: memory.and_then(|cell| cell.conditions.text.0),
            resource_template_generation: memory.and_then(|cell| cell.resource_template_generation),
            whole: None,
            source: if memory.is_some() {
                Source::Memory
            } else {
                Source::Nothing
            },
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
