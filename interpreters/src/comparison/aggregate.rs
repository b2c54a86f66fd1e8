//! Finds the law that intends a difference of AggregateStatus.

use std::collections::BTreeSet;

use api::workload_deployment::CELLS_REPORTING;
use serde_json::Value;

use super::laws::{self, Law};
use super::subject::{HELPERS, Subject};
use super::value_diff::{FieldPath, in_lua, is_empty};
use crate::fold::StatusView;
use crate::review::InterpretedKind;

/// The counters that the CRD requires.
const REQUIRED: [&str; 4] = [
    "currentReplicas",
    "desiredReplicas",
    "readyReplicas",
    "replicas",
];
const UPDATED_REPLICAS: &str = "updatedReplicas";

/// The report of one cell.
struct Cell<'s> {
    name: &'s str,
    applied: bool,
    /// The status in the item.
    status: Option<&'s Value>,
    /// The status, if it counts as a report.
    report: Option<&'s Value>,
}

impl<'s> Cell<'s> {
    fn of(item: &'s Value) -> Self {
        let status = item.get("status").filter(|status| !status.is_null());
        let is_report = |status: &&Value| StatusView::parse(&status.to_string()).is_some();
        Self {
            name: item
                .get("clusterName")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            applied: item
                .get("applied")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            status,
            report: status.filter(is_report),
        }
    }

    fn is_invalid(&self) -> bool {
        self.report.is_none() && self.status.is_some_and(|status| !is_empty(status))
    }
}

/// The circumstances of a status on the hub.
pub(super) struct StatusCase<'s> {
    subject: &'s Subject,
    kind: Option<InterpretedKind>,
    /// Whether a script answers today.
    scripted: bool,
    /// Whether the script does what the replaced customization does: it takes the status of the first cell.
    takes_first_cell: bool,
    cells: Vec<Cell<'s>>,
    /// The names of the cells.
    names: BTreeSet<&'s str>,
    /// The whole status that the native interpreter answers.
    native: Option<&'s Value>,
}

impl<'s> StatusCase<'s> {
    pub(super) fn new(
        subject: &'s Subject,
        scripted: bool,
        former: Option<&Value>,
        native: Option<&'s Value>,
    ) -> Self {
        let cells: Vec<_> = subject.items.iter().map(Cell::of).collect();
        let of_first = cells.first().and_then(|cell| cell.status);
        let expected = of_first.or_else(|| subject.object.get("status"));
        let kind = subject.object.get("kind").and_then(Value::as_str);
        Self {
            subject,
            kind: kind.and_then(InterpretedKind::from_name),
            scripted,
            takes_first_cell: expected.and_then(in_lua) == former.and_then(in_lua),
            names: cells.iter().map(|cell| cell.name).collect(),
            cells,
            native,
        }
    }

    /// Returns the law that intends the difference of one field.
    pub(super) fn law(
        &self,
        path: &FieldPath,
        former: Option<&Value>,
        native: Option<&Value>,
    ) -> Option<&'static Law> {
        let parts = path.parts();
        let ["status", field @ ..] = parts.as_slice() else {
            return None;
        };
        if !self.scripted {
            return Some(laws::STATUS_IS_AGGREGATED);
        }
        if !self.takes_first_cell {
            return None;
        }
        match self.kind? {
            InterpretedKind::Instance => self.of_instance(),
            InterpretedKind::WorkloadDeployment => match field {
                [] => self.of_whole_status(native),
                _ => self.of_field(field, former, native),
            },
        }
    }

    fn of_instance(&self) -> Option<&'static Law> {
        let of_hub = self.subject.object.get("status");
        let whole = self.native;
        let of_cells = self.cells.iter().filter_map(|cell| cell.status);
        let mut known = of_cells.chain(of_hub);
        let first = self.cells.first()?;
        match self.cells.len() {
            1 if first.status.is_none_or(is_empty) && whole == of_hub => {
                Some(laws::INSTANCE_STATUS_STAYS)
            }
            0 | 1 => None,
            _ => known
                .any(|status| Some(status) == whole)
                .then_some(laws::HIGHEST_RANK_WINS),
        }
    }

    /// Explains that only one side has a status.
    fn of_whole_status(&self, native: Option<&Value>) -> Option<&'static Law> {
        let reports = self.cells.iter().any(|cell| cell.report.is_some());
        match native {
            None => None,
            Some(_) if self.cells.iter().any(Cell::is_invalid) => {
                Some(laws::INVALID_REPORTS_DO_NOT_COUNT)
            }
            Some(_) if reports => self.is_several().then_some(laws::COUNTERS_ARE_SUMMED),
            Some(_) => Some(laws::SILENT_CELLS_ARE_NAMED),
        }
    }

    fn of_field(
        &self,
        field: &[&str],
        former: Option<&Value>,
        native: Option<&Value>,
    ) -> Option<&'static Law> {
        let is_silent = |cell: &Cell<'_>| !cell.applied || cell.report.is_none();
        let any_silent = self.cells.iter().any(is_silent);
        let first_is_invalid = self.cells.first().is_some_and(Cell::is_invalid);
        let first_reports = self.cells.first().is_some_and(|cell| cell.report.is_some());
        match field {
            ["conditions", "[CellsReporting]", ..] => Some(laws::SILENT_CELLS_ARE_NAMED),
            // The whole list, if one side has none.
            ["conditions"] if any_silent && is_cells_reporting(native) => {
                Some(laws::SILENT_CELLS_ARE_NAMED)
            }
            _ if first_is_invalid => Some(laws::INVALID_REPORTS_DO_NOT_COUNT),
            [name] if HELPERS.contains(name) => {
                native.is_none().then_some(laws::HELPERS_ARE_LEFT_OUT)
            }
            ["reportingCell" | "cells", ..] => {
                self.is_memory(field).then_some(laws::CELLS_ARE_REMEMBERED)
            }
            [name] if REQUIRED.contains(name) || *name == UPDATED_REPLICAS => {
                self.of_counter(name, former, native)
            }
            ["observedGeneration"] | ["conditions", _, "observedGeneration"] => self
                .is_generation(native)
                .then_some(laws::GENERATIONS_ARE_TRANSLATED),
            _ if self.is_several() => match field {
                ["conditions", ..] => Some(laws::CONDITIONS_ARE_JOINED),
                ["selector" | "suspended"] => Some(laws::COMMON_FIELDS_ARE_JOINED),
                _ => native.is_none().then_some(laws::COMMON_FIELDS_ARE_JOINED),
            },
            _ if !first_reports => Some(laws::LAST_REPORT_STAYS),
            _ => None,
        }
    }

    fn of_counter(
        &self,
        name: &str,
        former: Option<&Value>,
        native: Option<&Value>,
    ) -> Option<&'static Law> {
        let is_it = native.and_then(Value::as_i64) == self.counter(name);
        if !is_it {
            return None;
        }
        Some(match former {
            _ if self.is_several() => laws::COUNTERS_ARE_SUMMED,
            _ if self.cells.iter().all(|cell| cell.report.is_none()) => laws::LAST_REPORT_STAYS,
            None => laws::COUNTERS_ARE_PRESENT,
            Some(_) => laws::NUMBERS_FIT_THE_SCHEMA,
        })
    }

    /// Returns a counter of all cells: of their reports, else of what the hub remembers of them.
    fn counter(&self, name: &str) -> Option<i64> {
        let of_hub = self.subject.object.get("status");
        let reporting_cell = of_hub.and_then(|status| status.get("reportingCell"));
        let remembered = of_hub.and_then(|status| status.get("cells")?.as_array());
        let number = |status: &Value| status.get(name).and_then(clamped);
        let is_known = reporting_cell.is_some_and(|it| !it.is_null())
            || remembered.is_some_and(|cells| !cells.is_empty());
        let all_silent = self.cells.iter().all(|cell| cell.report.is_none());
        if all_silent && !is_known {
            // The status of former versions, which named no cell.
            let number = of_hub.and_then(number);
            return number.or_else(|| REQUIRED.contains(&name).then_some(0));
        }
        let of_cell = |cell: &Cell<'_>| match cell.report {
            Some(report) => number(report),
            None if reporting_cell.and_then(Value::as_str) == Some(cell.name) => {
                of_hub.and_then(number)
            }
            None => {
                let mut entries = remembered.into_iter().flatten();
                let is_it =
                    |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(cell.name);
                entries.find(is_it).and_then(number)
            }
        };
        let numbers: Vec<_> = self.cells.iter().filter_map(of_cell).collect();
        if numbers.is_empty() && name == UPDATED_REPLICAS {
            return None;
        }
        let sum: i64 = numbers.iter().sum();
        Some(sum.clamp(i32::MIN.into(), i32::MAX.into()))
    }

    /// Returns whether several cells are in the list.
    fn is_several(&self) -> bool {
        self.names.len() > 1
    }

    /// Returns whether the native status names exactly cells of the list.
    fn is_memory(&self, field: &[&str]) -> bool {
        let (names, native) = (&self.names, self.native);
        let name = native.and_then(|status| status.get("reportingCell")?.as_str());
        let entries = native.and_then(|status| status.get("cells")?.as_array());
        let in_entries = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.get("name")?.as_str());
        match field {
            ["reportingCell"] => name.is_none_or(|name| names.contains(name)),
            _ => in_entries.chain(name).all(|name| names.contains(name)),
        }
    }

    /// Returns whether a generation is that of the hub's object, or the former one.
    fn is_generation(&self, native: Option<&Value>) -> bool {
        let Some(generation) = native else {
            return true;
        };
        let object = &self.subject.object;
        let current = object.pointer("/metadata/generation");
        let status = object.get("status");
        let former = status.and_then(|status| status.get("observedGeneration"));
        let conditions = status.and_then(|status| status.get("conditions")?.as_array());
        let of_conditions = conditions.into_iter().flatten();
        let of_conditions = of_conditions.filter_map(|it| it.get("observedGeneration"));
        let mut known = current.into_iter().chain(former).chain(of_conditions);
        known.any(|known| known == generation)
    }
}

/// Returns whether a list of conditions has only `CellsReporting`.
fn is_cells_reporting(conditions: Option<&Value>) -> bool {
    let conditions = conditions.and_then(Value::as_array);
    conditions.is_some_and(|conditions| {
        let is_it = |condition: &Value| {
            condition.get("type").and_then(Value::as_str) == Some(CELLS_REPORTING)
        };
        conditions.iter().all(is_it)
    })
}

/// Returns a number as an integer of 32 bits. A number with a fraction is none.
fn clamped(value: &Value) -> Option<i64> {
    let limits = i64::from(i32::MIN)..=i64::from(i32::MAX);
    let float = value.as_f64()?;
    match value.as_i64() {
        Some(number) => Some(number.clamp(*limits.start(), *limits.end())),
        None if float.fract() != 0.0 => None,
        #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
        None => Some((float as i64).clamp(*limits.start(), *limits.end())),
    }
}
