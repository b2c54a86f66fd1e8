//! The expected values for one call, computed only from the JSON of the items.

use std::collections::BTreeMap;

use serde_json::Value;

use super::generate::Round;
use super::{COUNTERS, HELPERS, OPTIONAL_COUNTER, schema};

/// One cell in one call.
#[derive(Clone, Debug)]
pub(super) struct ReportedCell {
    pub(super) name: String,
    /// The status of the cell, if it is valid and current.
    pub(super) report: Option<Value>,
    /// The status of the cell, if it is valid, but not current: the object is not applied, or a lower hub has no report
    /// any more.
    pub(super) former: Option<Value>,
    /// True if the call has several different items of this cell.
    pub(super) ambiguous: bool,
}

pub(super) fn cells(items: &[Value]) -> Vec<ReportedCell> {
    let mut cells: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for item in items {
        cells
            .entry(item["clusterName"].as_str().unwrap())
            .or_default()
            .push(item);
    }
    cells
        .into_iter()
        .map(|(name, items)| {
            let item = items[0];
            let status = decodes(item)
                .then(|| valid_status(&item["status"]))
                .flatten()
                .filter(|status| !is_of_lower_hub_without_reports(status));
            let is_current =
                |status: &Value| item["applied"] == true && !names_silent_cells(status);
            ReportedCell {
                name: name.to_owned(),
                report: status.clone().filter(is_current),
                former: status.filter(|status| !is_current(status)),
                ambiguous: items.iter().any(|other| *other != item),
            }
        })
        .collect()
}

/// Returns whether `CellsReporting` of the status is False.
fn names_silent_cells(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut own = conditions.filter(|it| it["type"] == "CellsReporting");
    own.next().is_some_and(|first| first["status"] == "False")
}

/// Returns whether `CellsReporting` is all that the status says.
fn is_of_lower_hub_without_reports(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    let conditions = conditions.map_or(&[][..], Vec::as_slice);
    let is_alone = conditions.iter().all(|it| it["type"] == "CellsReporting");
    let is_zero = |counter: &str| status.get(counter).is_none_or(|it| it == 0);
    names_silent_cells(status)
        && is_alone
        && COUNTERS.into_iter().all(is_zero)
        && status.get(OPTIONAL_COUNTER).is_none()
}

fn decodes(item: &Value) -> bool {
    let absent_or = |field: &str, is: fn(&Value) -> bool| item.get(field).is_none_or(is);
    absent_or("applied", Value::is_boolean) && absent_or("appliedMessage", Value::is_string)
}

/// Returns a status with all required counters and without null fields. The counters are clamped to int32. Returns `None` if the
/// status is empty or violates the schema.
fn valid_status(status: &Value) -> Option<Value> {
    let mut status = status
        .as_object()
        .filter(|fields| !fields.is_empty())?
        .clone();
    status.retain(|_, value| !value.is_null());
    for counter in COUNTERS.into_iter().chain([OPTIONAL_COUNTER]) {
        let number = match status.get(counter) {
            None if counter == OPTIONAL_COUNTER => continue,
            None => 0.0,
            Some(value) => value.as_f64().filter(|number| number.fract() == 0.0)?,
        };
        #[expect(clippy::cast_possible_truncation)]
        let number = number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        status.insert(counter.into(), number.into());
    }
    if !HELPERS
        .iter()
        .all(|helper| status.get(*helper).is_none_or(Value::is_i64))
    {
        return None;
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        condition.entry("message").or_insert_with(|| "".into());
        condition.retain(|name, value| name != "observedGeneration" || !value.is_null());
    }
    let status = Value::Object(status);
    schema::violations(&status).is_empty().then_some(status)
}

/// Returns whether every cell has processed the template with its share. `former` is the status before the call.
pub(super) fn all_current(cells: &[ReportedCell], round: &Round, former: &Value) -> bool {
    let mut shares = BTreeMap::new();
    for cell in cells {
        let Some(report) = &cell.report else {
            return false;
        };
        let acted =
            report["generation"].is_i64() && report["generation"] == report["observedGeneration"];
        if !acted || report["resourceTemplateGeneration"] != round.generation {
            return false;
        }
        let assigned = if round.replicas.is_none() && report["assignedMinReplicas"].is_i64() {
            &report["assignedMinReplicas"]
        } else {
            &report["assignedReplicas"]
        };
        let Some(share) = assigned.as_i64() else {
            return false;
        };
        shares.insert(cell.name.as_str(), share.clamp(0, i32::MAX.into()));
    }
    let Some(total) = round.replicas.or(round.min_replicas) else {
        return false;
    };
    let total = i64::from(total);
    let memory = former["cells"].as_array().into_iter().flatten();
    let remembered: BTreeMap<_, _> = memory
        .clone()
        .filter_map(|cell| Some((cell["name"].as_str()?, cell["assignedReplicas"].as_i64()?)))
        .collect();
    let mut former_totals = memory.filter_map(|cell| cell["templateReplicas"].as_i64());
    let not_moved = former_totals.any(|former| former != total) && remembered == shares;
    let adds_up = shares.values().sum::<i64>() == total || shares.values().all(|s| *s == total);
    adds_up && !not_moved && (total == 0 || shares.values().all(|share| *share > 0))
}
