//! The status of an object that matches no cell, and of one on a lower hub of which Karmada has no report.

use std::borrow::Cow;

use api::ConditionStatus::{self, False, Unknown};
use api::condition::MESSAGE_MAX;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING, NO_MATCHING_CELL};
use jiff::Timestamp;

use super::available::replace;
use super::condition::{ConditionView, shown_since, time};
use super::join::{find, truncated};
use super::rendered_status::RenderedStatus;
use super::resource_template::ResourceTemplate;
use super::status::StatusView;

/// The message of an object of a lower hub without reports. The name of the lower hub precedes it on the hub.
const NO_REPORT: &str = "Karmada of the lower hub has no report of a cell";

/// Returns the status of `template` as JSON, for an object that no cell matches. The result is the former status with
/// three changes. `CellsReporting` is False, `Available` is Unknown, and `status.cells` is removed. Both conditions
/// have the reason `NoMatchingCell` and `message`. Their transition time is `since`. A condition that already had the
/// same status keeps its transition time. Returns `None` if the status cannot be written.
///
/// The caller must know that no cell matches. An empty list of items or an absent binding is not enough.
pub fn no_matching_cell(
    template: &ResourceTemplate<'_>,
    since: Timestamp,
    message: &str,
) -> Option<String> {
    let former = template
        .status
        .and_then(StatusView::parse)
        .unwrap_or_default();
    let available_since = hub_since(find(&former.conditions, AVAILABLE), Unknown)
        .or_else(|| shown_since(template.shown, AVAILABLE, Unknown));
    let reporting_since = shown_since(template.shown, CELLS_REPORTING, False)
        .or_else(|| hub_since(former.cells_reporting(), False));
    let message = truncated(message.into(), MESSAGE_MAX);
    let kept_times = (available_since, reporting_since);
    let mut text = Vec::new();
    write(&former, &message, kept_times, since, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Appends the status of a lower hub's object of which Karmada has no report any more, if it had one. Returns whether the
/// status changes. The result is the former status with the changes of [`no_matching_cell`].
///
/// The counters stay: Karmada also has no report while it deletes the object in a cell that it cannot reach.
pub(crate) fn without_reports(former: &StatusView<'_>, now: Timestamp, out: &mut Vec<u8>) -> bool {
    if !former.loses_reports() {
        return false;
    }
    let kept_times = (
        hub_since(find(&former.conditions, AVAILABLE), Unknown),
        hub_since(former.cells_reporting(), False),
    );
    write(former, NO_REPORT, kept_times, now, out).is_ok()
}

/// Appends the former status with the changes of [`no_matching_cell`]. The kept times are those of `Available` and of
/// `CellsReporting`, if they had the status already. Otherwise `since` is the time.
fn write<'a>(
    former: &StatusView<'a>,
    message: &str,
    kept_times: (Option<Cow<'a, str>>, Option<Cow<'a, str>>),
    since: Timestamp,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let condition =
        |type_: &'static str, status, kept: Option<_>, former: Option<&ConditionView<'_>>| {
            ConditionView {
                last_transition_time: kept.unwrap_or_else(|| time(since)),
                message: message.to_owned().into(),
                observed_generation: former.and_then(|former| former.observed_generation),
                reason: NO_MATCHING_CELL.into(),
                status,
                type_: type_.into(),
            }
        };
    let (available_since, reporting_since) = kept_times;
    let mut conditions = former.conditions.clone();
    let available = find(&conditions, AVAILABLE);
    let available = condition(AVAILABLE, Unknown, available_since, available);
    replace(&mut conditions, available);
    let reporting = former.cells_reporting();
    let reporting = condition(CELLS_REPORTING, False, reporting_since, reporting);
    let status = RenderedStatus {
        cells: Vec::new(),
        conditions,
        counters: former.counters(),
        observed_generation: former.generations.observed_generation,
        others: Some(&former.others),
        cells_reporting: Some(reporting),
        reporting_cell: None,
        selector: former.selector(),
        suspended: former.suspended(),
    };
    status.write(out)
}

/// Returns the transition time of the hub's condition. Returns `None` if the condition is absent or has another status.
fn hub_since<'a>(
    condition: Option<&ConditionView<'a>>,
    status: ConditionStatus,
) -> Option<Cow<'a, str>> {
    let condition = condition.filter(|condition| condition.status == status)?;
    Some(condition.last_transition_time.clone())
}
