//! Whether an Instance is ready (compute.md 2.6.2).

use api::Instance;
use api::condition::{self, Condition, ConditionStatus};
use api::instance::{PROGRAMMED, READY, RUNNING};
use jiff::Timestamp;

/// Reasons of `Ready` (compute.md 1.3).
mod reason {
    pub(super) const SCHEDULING_GATES_PRESENT: &str = "SchedulingGatesPresent";
    pub(super) const PENDING_PROGRAMMING: &str = "PendingProgramming";
    pub(super) const PENDING: &str = "Pending";
    pub(super) const RUNNING: &str = "Running";
}

/// The conditions of an Instance with `Ready` as it must be, where they change.
pub(crate) fn readiness(instance: &Instance, now: Timestamp) -> Option<Vec<Condition>> {
    let former = instance.status.as_ref();
    let former = former.map_or(&[][..], |status| &status.conditions);
    let mut conditions = former.to_vec();
    let ready = ready(instance, now).observed(instance.metadata.generation);
    condition::set(&mut conditions, ready);
    (conditions != former).then_some(conditions)
}

/// The first rule of compute.md 2.6.2 that matches decides; no quota yet.
fn ready(instance: &Instance, now: Timestamp) -> Condition {
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
        (RUNNING, reason::PENDING, "the instance is not running"),
    ] {
        let condition = condition::find(conditions, type_);
        if condition.is_some_and(Condition::is_true) {
            continue;
        }
        let reason = condition
            .map(|c| c.reason.as_str())
            .filter(|reason| *reason != reason::PENDING);
        let told = condition.filter(|condition| condition.status != ConditionStatus::Unknown);
        let message = told.map_or(default_message, |condition| condition.message.as_str());
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{instance, now, object};

    fn ready_of(conditions: &Value, gates: &Value) -> (ConditionStatus, String, String) {
        let mut instance = instance("ns-1", "web-0");
        instance.spec.controller = Some(object(
            json!({"templateHash": "h", "schedulingGates": gates}),
        ));
        instance.status = Some(object(json!({"conditions": conditions})));
        let ready = ready(&instance, now());
        (ready.status, ready.reason, ready.message)
    }

    fn told(type_: &str, status: &str, reason: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": "told", "lastTransitionTime": "2026-11-21T09:00:00Z"})
    }

    #[test]
    fn readiness_is_the_first_rule_that_matches() {
        let no_gates = json!([]);
        let programmed = told("Programmed", "True", "Programmed");
        for (conditions, gates, expected) in [
            (
                json!([]),
                json!([{"name": "Network"}, {"name": "Quota"}]),
                (
                    "SchedulingGatesPresent",
                    "scheduling gates are present: Network, Quota",
                ),
            ),
            (
                json!([]),
                no_gates.clone(),
                ("PendingProgramming", "the instance has not been programmed"),
            ),
            (
                json!([told("Programmed", "Unknown", "Pending")]),
                no_gates.clone(),
                ("PendingProgramming", "the instance has not been programmed"),
            ),
            (
                json!([told("Programmed", "False", "ProgrammingInProgress")]),
                no_gates.clone(),
                ("ProgrammingInProgress", "told"),
            ),
            (
                json!([programmed, told("Running", "Unknown", "Pending")]),
                no_gates.clone(),
                ("Pending", "the instance is not running"),
            ),
            (
                json!([programmed, told("Running", "False", "Stopped")]),
                no_gates.clone(),
                ("Stopped", "told"),
            ),
        ] {
            let (status, reason, message) = ready_of(&conditions, &gates);
            assert_eq!(
                (status, reason.as_str(), message.as_str()),
                (ConditionStatus::False, expected.0, expected.1)
            );
        }
        let running = json!([programmed, told("Running", "True", "Running")]);
        let (status, reason, _) = ready_of(&running, &no_gates);
        assert_eq!(
            (status, reason.as_str()),
            (ConditionStatus::True, "Running")
        );
    }

    #[test]
    fn what_says_so_already_is_left_alone() {
        let mut instance = instance("ns-1", "web-0");
        let conditions = readiness(&instance, now()).unwrap();
        let generation = instance.metadata.generation;
        assert!(generation.is_some());
        assert!(
            conditions
                .iter()
                .all(|it| it.observed_generation == generation)
        );
        instance.status = Some(object(json!({"conditions": conditions})));
        assert_eq!(readiness(&instance, now()), None);
        instance.metadata.generation = Some(77);
        assert!(readiness(&instance, now()).is_some());
    }
}
