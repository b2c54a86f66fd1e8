use serde_json::{Value, json};

use super::*;
use crate::fixtures::{self, instance, now, object};

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
        // A later provider sets another condition.
        (
            json!([programmed, told("Available", "False", "ImageUnavailable")]),
            no_gates.clone(),
            ("ImageUnavailable", "told"),
        ),
        (
            json!([
                programmed,
                told("Running", "True", "Running"),
                told("Available", "Unknown", "Provisioning"),
            ]),
            no_gates.clone(),
            ("Provisioning", "the instance is not running"),
        ),
        (
            json!([
                told("QuotaGranted", "False", "QuotaExceeded"),
                programmed,
                told("Running", "True", "Running"),
            ]),
            json!([{"name": "Quota"}]),
            ("PendingQuota", "told"),
        ),
    ] {
        let (status, reason, message) = ready_of(&conditions, &gates);
        assert_eq!(
            (status, reason.as_str(), message.as_str()),
            (ConditionStatus::False, expected.0, expected.1)
        );
    }
    for running in [
        json!([programmed, told("Running", "True", "Running")]),
        json!([
            programmed,
            told("Running", "True", "Running"),
            told("Available", "Unknown", "Pending")
        ]),
        json!([
            programmed,
            told("Running", "Unknown", "Pending"),
            told("Available", "True", "Available")
        ]),
        json!([
            told("QuotaGranted", "Unknown", "PendingEvaluation"),
            programmed,
            told("Running", "True", "Running")
        ]),
    ] {
        let (status, reason, _) = ready_of(&running, &no_gates);
        assert_eq!(
            (status, reason.as_str()),
            (ConditionStatus::True, "Running"),
            "{running}"
        );
    }
}

#[test]
fn a_suspended_instance_is_not_ready_whatever_the_provider_reports() {
    let mut instance = instance("ns-1", "web-0");
    let conditions = [
        fixtures::condition("Programmed", true, None),
        fixtures::condition("Running", true, None),
        fixtures::condition("QuotaGranted", false, None),
    ];
    instance.status = Some(object(json!({"conditions": conditions, "suspended": true})));
    let conditions = readiness(&instance, now()).unwrap();
    let ready = condition::find(&conditions, READY).unwrap();
    assert_eq!(
        (ready.status, ready.reason.as_str()),
        (ConditionStatus::False, reason::SUSPENDED)
    );
    assert!(!is_ready(&instance));
}

#[test]
fn an_annotated_instance_is_not_written() {
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
