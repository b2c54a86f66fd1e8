//! Decides whether an Instance is ready (docs/concepts/flow.md#readiness-of-an-instance).

use api::Instance;
use api::condition::{self, Condition, ConditionStatus};
use api::instance::{AVAILABLE, PROGRAMMED, READY, RUNNING};
use api::reasons::instance as reason;
use jiff::Timestamp;

use super::blocker::{Blocker, blocker};

/// Computes `Ready` of an Instance. Returns all conditions of the Instance with the new `Ready`, or `None` if nothing
/// changes.
pub(crate) fn readiness(instance: &Instance, now: Timestamp) -> Option<Vec<Condition>> {
    let former = instance.status.as_ref();
    let former = former.map_or(&[][..], |status| &status.conditions);
    let mut conditions = former.to_vec();
    let ready = ready(instance, now).observed(instance.metadata.generation);
    condition::set(&mut conditions, ready);
    (conditions != former).then_some(conditions)
}

/// Returns whether `Ready` is True, or will be after the next write of the condition. Whoever decides by this value has
/// not to wait for that write.
pub(crate) fn is_ready(instance: &Instance) -> bool {
    // The status of the condition does not depend on the time.
    ready(instance, Timestamp::UNIX_EPOCH).is_true()
}

/// Returns the condition `Ready`. The first matching rule decides.
fn ready(instance: &Instance, now: Timestamp) -> Condition {
    if let Some(Blocker {
        reason, message, ..
    }) = blocker(instance)
    {
        return Condition::new(READY, ConditionStatus::False, reason, message, now);
    }
    let gates = instance
        .spec
        .controller
        .as_ref()
        .map(|controller| controller.scheduling_gates.as_slice());
    if let Some(gates @ [_, ..]) = gates {
        let names: Vec<_> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let message = format!("scheduling gates are present: {}", names.join(", "));
        return Condition::new(
            READY,
            ConditionStatus::False,
            reason::SCHEDULING_GATES_PRESENT,
            message,
            now,
        );
    }
    let conditions = instance
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    for (type_, default_reason, default_message) in [
        (
            PROGRAMMED,
            reason::PENDING_PROGRAMMING,
            "the instance has not been programmed",
        ),
        (
            running_type(conditions),
            reason::PENDING,
            "the instance is not running",
        ),
    ] {
        let condition = condition::find(conditions, type_);
        if condition.is_some_and(Condition::is_true) {
            continue;
        }
        let reason = condition
            .map(|c| c.reason.as_str())
            .filter(|reason| *reason != reason::PENDING);
        let decided = condition.filter(|condition| condition.status != ConditionStatus::Unknown);
        let message = decided.map_or(default_message, |condition| condition.message.as_str());
        return Condition::new(
            READY,
            ConditionStatus::False,
            reason.unwrap_or(default_reason),
            message,
            now,
        );
    }
    Condition::new(
        READY,
        ConditionStatus::True,
        reason::RUNNING,
        "the instance is ready to use",
        now,
    )
}

/// Returns the condition that shows whether the instance is running.
pub(crate) fn running(instance: &Instance) -> Option<&Condition> {
    let conditions = &instance.status.as_ref()?.conditions;
    condition::find(conditions, running_type(conditions))
}

/// Returns the type of the condition that shows whether the instance is running. Later providers set `Available` and
/// leave `Running` as it is. Undecided, `Available` has the default of the schema.
fn running_type(conditions: &[Condition]) -> &'static str {
    let is_decided = |available: &Condition| {
        available.status != ConditionStatus::Unknown || available.reason != reason::PENDING
    };
    match condition::find(conditions, AVAILABLE).filter(|available| is_decided(available)) {
        Some(_) => AVAILABLE,
        None => RUNNING,
    }
}

#[cfg(test)]
mod tests;
