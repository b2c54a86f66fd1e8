//! The cells below a lower hub (docs/concepts/status.md#lower-hubs).

use std::collections::BTreeMap;

use api::workload_deployment::{CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELLS_REPORTING};
use interpreters::fold::{NamedCells, checked_name_above};
use serde_json::Value;

/// Returns the last report of each cell below a lower hub, by the name of the cell. `report` is the status of the lower
/// hub's object.
pub(super) fn reported(lower_hub: &str, report: &Value) -> BTreeMap<String, Value> {
    let name =
        |status: &Value, field| Some(checked_name_above(lower_hub, status.get(field)?.as_str()?));
    let cells = report.get("cells").and_then(Value::as_array);
    if let Some(cells) = cells.filter(|cells| !cells.is_empty()) {
        let cells = cells.iter();
        let named = cells.filter_map(|cell| Some((name(cell, "name")?, cell.clone())));
        return named.collect();
    }
    let single = name(report, "reportingCell").map(|cell| (cell, report.clone()));
    single.into_iter().collect()
}

/// Why cells below a lower hub do not report.
pub(super) struct Problem {
    pub(super) reason: &'static str,
    /// The message names the cells.
    pub(super) message: String,
    /// The cells that the message names.
    pub(super) named: NamedCells,
}

impl Problem {
    /// Returns the problem that the status of the lower hub's object says, if there is one.
    pub(super) fn of(lower_hub: &str, report: &Value) -> Option<Self> {
        let conditions = report.get("conditions").and_then(Value::as_array)?;
        let text = |condition: &Value, field| {
            let value = condition.get(field).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let reporting = conditions
            .iter()
            .find(|it| text(it, "type").as_deref() == Some(CELLS_REPORTING))?;
        if text(reporting, "status").as_deref() != Some("False") {
            return None;
        }
        let reason = match text(reporting, "reason").as_deref() {
            Some(CELL_NOT_APPLIED) => CELL_NOT_APPLIED,
            _ => CELL_NOT_REPORTED,
        };
        let message = text(reporting, "message").unwrap_or_default();
        Some(Self {
            reason,
            named: NamedCells::of(lower_hub, &message),
            message,
        })
    }
}
