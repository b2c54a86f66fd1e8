//! `Available` where cells cannot be reached.

use api::ConditionStatus;
use api::workload_deployment::{AVAILABLE, CELL_UNREACHABLE};

use super::condition::{Condition, shown_since, time};
use super::join::{find, join};
use super::known::Known;
use super::marks::Marks;

/// Lets `Available` rest on the reachable cells only. Where none of them has it, it is Unknown.
///
/// Its time stays while its status stays, be it that of the joined condition or that which is `shown`. Otherwise it is that
/// of the last mark which took away a better word than is left.
pub(super) fn rest_on_reachable<'a>(
    conditions: &mut Vec<Condition<'a>>,
    known: &[Known<'_, 'a>],
    marks: &Marks<'_>,
    former: &[Condition<'a>],
    shown: &[api::Condition],
    message: &str,
) {
    let Some(earliest) = marks.earliest() else {
        return;
    };
    let reachable = known.iter().filter(|cell| marks.since(cell.name).is_none());
    let told = join(reachable, former)
        .into_iter()
        .find(|condition| condition.type_ == AVAILABLE);
    let left = told.as_ref().map(|told| told.status);
    let before = find(conditions, AVAILABLE);
    let generation = before.and_then(|before| before.observed_generation);
    let mut available = match told {
        Some(told) => Condition {
            observed_generation: told.observed_generation.and(generation),
            ..told
        },
        None => Condition {
            last_transition_time: time(earliest),
            message: message.to_owned().into(),
            observed_generation: generation,
            reason: CELL_UNREACHABLE.into(),
            status: ConditionStatus::Unknown,
            type_: AVAILABLE.into(),
        },
    };
    let stays = before
        .filter(|before| before.status == available.status)
        .map(|before| before.last_transition_time.clone())
        .or_else(|| shown_since(shown, AVAILABLE, available.status));
    available.last_transition_time = stays.unwrap_or_else(|| {
        let taken_away = known.iter().filter_map(|cell| {
            let since = marks.since(cell.name)?;
            let of_type = cell.conditions.iter().filter(|c| c.type_ == AVAILABLE);
            (of_type.map(|c| c.status).max() > left).then_some(since)
        });
        time(taken_away.max().unwrap_or(earliest))
    });
    put(conditions, available);
}

/// Puts the condition in the place of all of its type, else where it comes by its type.
pub(super) fn put<'a>(conditions: &mut Vec<Condition<'a>>, condition: Condition<'a>) {
    let place = conditions
        .iter()
        .position(|other| other.type_ == condition.type_)
        .or_else(|| {
            conditions
                .iter()
                .position(|other| other.type_ > condition.type_)
        })
        .unwrap_or(conditions.len());
    conditions.retain(|other| other.type_ != condition.type_);
    conditions.insert(place, condition);
}
