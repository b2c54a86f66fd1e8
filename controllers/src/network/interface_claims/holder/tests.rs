//! Tables of what the network operator is told about an Instance.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{instance, now, object, shared, terminating};

fn holder(conditions: &Value) -> Instance {
    let mut body = json!(instance("ns-1", "web-0"));
    body["status"] = json!({"conditions": conditions});
    object(body)
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[test]
fn the_condition_follows_the_instance() {
    use ConditionStatus::{False, True, Unknown};
    let running = |status, reason| holder(&json!([condition("Running", status, reason)]));
    for (instance, expected) in [
        (instance("ns-1", "web-0"), (Unknown, reason::NOT_REPORTED)),
        (
            running("Unknown", "Pending"),
            (Unknown, reason::NOT_REPORTED),
        ),
        (running("True", "Running"), (True, reason::AVAILABLE)),
        (running("False", "Pending"), (False, reason::UNAVAILABLE)),
        (
            running("False", "InstanceCrashing"),
            (False, "InstanceCrashing"),
        ),
        (
            holder(&json!([
                condition("Running", "True", "Running"),
                condition("Available", "False", "Suspended"),
            ])),
            (False, "Suspended"),
        ),
        (
            {
                let mut suspended = running("True", "Running");
                suspended.status.get_or_insert_default().suspended = Some(true);
                suspended
            },
            (False, "Suspended"),
        ),
        (
            terminating(running("True", "Running")),
            (False, reason::TERMINATING),
        ),
    ] {
        let condition = available(&instance, now());
        assert_eq!((condition.status, condition.reason.as_str()), expected);
    }
}

#[test]
fn each_held_interface_is_told_once_and_keeps_its_other_conditions() {
    let claim: NetworkInterfaceClaim = object(json!({
        "metadata": {"name": "web-0-eth0", "namespace": "ns-1"},
        "spec": {"network": {"name": "default"}},
        "status": {"networkInterfaceRef": {"name": "nic-1"}},
    }));
    let claims = shared([claim]);
    let interface = |name: &str| -> NetworkInterface {
        object(json!({
            "metadata": {"name": name, "namespace": "ns-1"},
            "status": {"conditions": [condition("Allocated", "True", "Allocated")]},
        }))
    };
    let instance = holder(&json!([condition("Running", "True", "Running")]));
    let told =
        |interfaces: &[Arc<NetworkInterface>]| report(&instance, claims.iter(), interfaces, now());
    assert_eq!(told(&shared([interface("nic-2")])), None);
    let report = told(&shared([interface("nic-1"), interface("nic-2")])).unwrap();
    assert_eq!(report.interface.name_any(), "nic-1");
    let types: Vec<_> = report
        .conditions
        .iter()
        .map(|it| it.type_.as_str())
        .collect();
    assert_eq!(types, ["Allocated", HOLDER_AVAILABLE]);
    let mut reported = interface("nic-1");
    reported.status.as_mut().unwrap().conditions = report.conditions;
    assert_eq!(told(&shared([reported])), None);
}
