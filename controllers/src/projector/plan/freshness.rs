//! Adds the state of the cell to the status of a projection. The status on the hub does not contain it, because a cell
//! that cannot be reached does not write.

use std::borrow::Cow;

use api::condition::{self, ConditionStatus, MESSAGE_MAX};
use api::instance::READY;
use api::reasons::instance::CELL_UNREACHABLE;
use api::{Condition, Instance, InstanceStatus, labels};
use jiff::Timestamp;

use crate::hub::cells::CellState;
use crate::objects::label;

/// Returns the status of the copy. If its cell cannot be reached, `Ready` is Unknown since that time, and its message
/// contains the last report. The other fields stay as the cell last reported them.
pub(super) fn fresh<'a>(
    copy: &Instance,
    status: &'a InstanceStatus,
    projection: &Instance,
    cell: &CellState,
    now: Timestamp,
) -> Cow<'a, InstanceStatus> {
    let CellState::Unreachable { since, message } = cell else {
        return Cow::Borrowed(status);
    };
    let cell = label(copy, labels::SOURCE_CLUSTER).unwrap_or_default();
    let last = condition::find(&status.conditions, READY);
    let message = match last {
        Some(last) => format!(
            "cell {cell} cannot be reached: {message}; it last reported {:?} {}: {}",
            last.status, last.reason, last.message
        ),
        None => format!("cell {cell} cannot be reached: {message}"),
    };
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let since = since.or_else(|| shown_since(projection)).unwrap_or(now);
    let unknown = Condition::new(
        READY,
        ConditionStatus::Unknown,
        CELL_UNREACHABLE,
        message,
        since,
    )
    .observed(last.and_then(|last| last.observed_generation));
    let mut status = status.clone();
    condition::remove(&mut status.conditions, READY);
    status.conditions.push(unknown);
    Cow::Owned(status)
}

/// Returns the status of a projection without a copy on the hub, if its cell is cut off and the status does not say so
/// yet. The Instance may still run in the cell.
pub(super) fn cut_off(
    projection: &Instance,
    cell: &CellState,
    now: Timestamp,
) -> Option<InstanceStatus> {
    if !cell.is_cut_off() || shown_since(projection).is_some() {
        return None;
    }
    let status = projection.status.clone().unwrap_or_default();
    Some(fresh(projection, &status, projection, cell, now).into_owned())
}

/// Returns since when the projection shows that its cell cannot be reached.
fn shown_since(projection: &Instance) -> Option<Timestamp> {
    let status = projection.status.as_ref()?;
    let ready = condition::find(&status.conditions, READY)?;
    (ready.reason == CELL_UNREACHABLE).then_some(ready.last_transition_time.0)
}
