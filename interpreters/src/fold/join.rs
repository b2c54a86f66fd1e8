//! What several cells say, as one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::condition::MESSAGE_MAX;
use api::workload_deployment::AVAILABLE;

use super::condition::Condition;
use super::known::Known;
use super::report::{Counters, saturated};

/// The counters of all cells.
pub(super) fn sum(known: &[Known<'_, '_>]) -> Counters {
    let total = |counter: fn(&Counters) -> i32| {
        let total: i64 = known
            .iter()
            .map(|cell| i64::from(counter(&cell.counters)))
            .sum();
        saturated(total)
    };
    Counters {
        current_replicas: total(|counters| counters.current_replicas),
        desired_replicas: total(|counters| counters.desired_replicas),
        ready_replicas: total(|counters| counters.ready_replicas),
        replicas: total(|counters| counters.replicas),
    }
}

/// One condition per type, sorted by type. `Available` holds where any cell has it, every other type is as bad as its
/// worst cell. The first cell by name that has the joined status gives reason and message.
pub(super) fn join<'k, 'a: 'k>(
    known: impl IntoIterator<Item = &'k Known<'k, 'a>>,
    former: &[Condition<'a>],
) -> Vec<Condition<'a>> {
    let mut deciding: BTreeMap<&str, (&str, &Condition<'a>)> = BTreeMap::new();
    for cell in known {
        for condition in cell.conditions.iter() {
            let decides = match deciding.get(condition.type_.as_ref()) {
                None => true,
                Some((_, other)) if condition.type_ == AVAILABLE => condition.status > other.status,
                Some((_, other)) => condition.status < other.status,
            };
            if decides {
                deciding.insert(&condition.type_, (cell.name.unwrap_or_default(), condition));
            }
        }
    }
    deciding
        .into_values()
        .map(|(cell, condition)| {
            let mut joined = condition.clone();
            let former = find(former, &condition.type_).filter(|f| f.status == condition.status);
            if let Some(former) = former {
                joined
                    .last_transition_time
                    .clone_from(&former.last_transition_time);
            }
            let message = match condition.message.as_ref() {
                "" => cell.to_owned(),
                message => format!("{cell}: {message}"),
            };
            joined.message = truncated(message.into(), MESSAGE_MAX);
            joined
        })
        .collect()
}

pub(super) fn find<'c, 'a>(
    conditions: &'c [Condition<'a>],
    type_: &str,
) -> Option<&'c Condition<'a>> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// At most so many characters of a message.
pub(super) fn truncated(message: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    match message.char_indices().nth(longest) {
        Some((end, _)) => message.get(..end).unwrap_or_default().to_owned().into(),
        None => message,
    }
}
