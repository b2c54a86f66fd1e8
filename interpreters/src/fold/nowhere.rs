//! The status of an object that no cell is meant to have.

use std::borrow::Cow;

use api::ConditionStatus::{self, False, Unknown};
use api::condition::MESSAGE_MAX;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, NO_MATCHING_CELL};
use jiff::Timestamp;

use super::Template;
use super::available::put;
use super::condition::{Condition, shown_since, time};
use super::join::{find, truncated};
use super::render::Status;
use super::report::Report;

/// The status of `template` as JSON where no cell fits it: what it says already, but that `CellsReporting` is False and
/// `Available` Unknown, both with the reason `NoMatchingCell`, this message, and since `since` where they were not so
/// before. `status.cells` is left out. `None` when it cannot be written.
///
/// That no cell fits is for the caller to prove: no items, or no binding yet, are no proof.
pub fn no_matching_cell(
    template: &Template<'_>,
    since: Timestamp,
    message: &str,
) -> Option<String> {
    let former = template.status.and_then(Report::parse).unwrap_or_default();
    let message = truncated(message.into(), MESSAGE_MAX);
    let condition =
        |type_: &'static str, status, since, before: Option<&Condition<'_>>| Condition {
            last_transition_time: since,
            message: message.clone(),
            observed_generation: before.and_then(|before| before.observed_generation),
            reason: NO_MATCHING_CELL.into(),
            status,
            type_: type_.into(),
        };
    let mut conditions = former.conditions.clone();
    let before = find(&conditions, AVAILABLE);
    let stays = on_hub(before, Unknown).or_else(|| shown_since(template.shown, AVAILABLE, Unknown));
    let since_then = stays.unwrap_or_else(|| time(since));
    let available = condition(AVAILABLE, Unknown, since_then, before);
    put(&mut conditions, available);

    let before = former.cells_reporting.as_deref();
    let stays =
        shown_since(template.shown, CELLS_REPORTING, False).or_else(|| on_hub(before, False));
    let since_then = stays.unwrap_or_else(|| time(since));
    let cells_reporting = condition(CELLS_REPORTING, False, since_then, before);
    let status = Status {
        cells: Vec::new(),
        conditions,
        counters: former.counters,
        observed_generation: former.generations.observed_generation,
        others: Some(&former.others),
        cells_reporting: Some(cells_reporting),
    };
    let mut text = Vec::new();
    status.write(&mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Since when the hub's condition has this status, if it has.
fn on_hub<'a>(condition: Option<&Condition<'a>>, status: ConditionStatus) -> Option<Cow<'a, str>> {
    let condition = condition.filter(|condition| condition.status == status)?;
    Some(condition.last_transition_time.clone())
}
