//! The condition `Available` while cells are unreachable, or while the cell of the status is not known.

use api::ConditionStatus;
use api::workload_deployment::{AVAILABLE, CELL_UNREACHABLE};

use super::cell_view::CellView;
use super::condition::{ConditionView, shown_since, time};
use super::join::{find, join};
use super::unreachable::UnreachableCells;

/// Computes `Available` from the reachable cells only. If no reachable cell reports `Available`, the status is Unknown.
///
/// The transition time is kept if the joined condition or the condition in `shown` has the same status. Otherwise the
/// transition time comes from the marks of the unreachable cells whose `Available` was better than the new status: the
/// time of the latest of these marks.
pub(super) fn require_reachable<'k, 'a: 'k>(
    conditions: &mut Vec<ConditionView<'a>>,
    cells: &(impl Iterator<Item = &'k CellView<'k, 'a>> + Clone),
    unreachable: &UnreachableCells<'_>,
    former: &[ConditionView<'a>],
    shown: &[api::Condition],
    message: &str,
) {
    let Some(earliest) = unreachable.earliest() else {
        return;
    };
    let reachable = cells
        .clone()
        .filter(|cell| unreachable.since(cell.name).is_none());
    let of_reachable = join(reachable, former)
        .into_iter()
        .find(|condition| condition.type_ == AVAILABLE);
    let new_status = of_reachable.as_ref().map(|condition| condition.status);
    let of_all = find(conditions, AVAILABLE);
    let generation = of_all.and_then(|condition| condition.observed_generation);
    let mut available = match of_reachable {
        Some(condition) => ConditionView {
            observed_generation: condition.observed_generation.and(generation),
            ..condition
        },
        None => ConditionView {
            last_transition_time: time(earliest),
            message: message.to_owned().into(),
            observed_generation: generation,
            reason: CELL_UNREACHABLE.into(),
            status: ConditionStatus::Unknown,
            type_: AVAILABLE.into(),
        },
    };
    let kept_time = of_all
        .filter(|condition| condition.status == available.status)
        .map(|condition| condition.last_transition_time.clone())
        .or_else(|| shown_since(shown, AVAILABLE, available.status));
    available.last_transition_time = kept_time.unwrap_or_else(|| {
        let lost = cells.clone().filter_map(|cell| {
            let since = unreachable.since(cell.name)?;
            let of_type = cell.conditions().iter().filter(|c| c.type_ == AVAILABLE);
            (of_type.map(|c| c.status).max() > new_status).then_some(since)
        });
        time(lost.max().unwrap_or(earliest))
    });
    replace(conditions, available);
}

/// Sets `Available` of a status to Unknown if the cell of the status is not known. The status may be of a cell that no
/// longer has the object. `reporting` gives the reason and the transition time.
pub(super) fn require_known_cell<'a>(
    conditions: &mut [ConditionView<'a>],
    reporting: &ConditionView<'a>,
) {
    let mut available = conditions.iter_mut().filter(|it| it.type_ == AVAILABLE);
    if let Some(available) = available.next()
        && available.status != ConditionStatus::Unknown
    {
        *available = ConditionView {
            status: ConditionStatus::Unknown,
            type_: AVAILABLE.into(),
            observed_generation: available.observed_generation,
            ..reporting.clone()
        };
    }
}

/// Replaces all conditions of this type with one condition. If there is none, inserts the condition in the order of
/// types.
pub(super) fn replace<'a>(conditions: &mut Vec<ConditionView<'a>>, condition: ConditionView<'a>) {
    let index = conditions
        .iter()
        .position(|other| other.type_ == condition.type_)
        .or_else(|| {
            conditions
                .iter()
                .position(|other| other.type_ > condition.type_)
        })
        .unwrap_or(conditions.len());
    conditions.retain(|other| other.type_ != condition.type_);
    conditions.insert(index, condition);
}
