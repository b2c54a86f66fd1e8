//! Tests of all operations on an Instance, through the wire protocol.

use serde_json::{Value, json};

use super::patch;

fn call(operation: &str, object: &Value, more: &Value) -> Value {
    super::call("Instance", operation, object, more)
}

fn ready(status: &str, reason: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status, "reason": reason}]})
}

#[test]
fn an_instance_is_one_replica_that_cannot_be_revised() {
    let object =
        json!({"spec": {"runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}}}});
    let response = call("InterpretReplica", &object, &json!({}));
    assert_eq!(response["replicas"], 1);
    assert_eq!(
        response["replicaRequirements"]["resourceRequest"]["memory"],
        "2Gi"
    );
    assert_eq!(
        call("InterpretComponent", &object, &json!({}))["components"][0]["replicas"],
        1
    );
    assert_eq!(
        patch(&call("ReviseReplica", &object, &json!({"replicas": 3}))),
        json!([])
    );
}

#[test]
fn spec_controller_of_the_cell_is_retained() {
    let retain = |desired: Value, observed: Value| {
        let more = json!({"observedObject": {"spec": observed}});
        patch(&call("Retain", &json!({"spec": desired}), &more))
    };
    let controller = json!({"templateHash": "h"});
    assert_eq!(
        retain(json!({}), json!({"controller": controller})),
        json!([{"op": "add", "path": "/spec/controller", "value": controller}])
    );
    assert_eq!(
        retain(
            json!({"controller": controller}),
            json!({"controller": controller})
        ),
        json!([])
    );
    assert_eq!(
        retain(json!({"controller": controller}), json!({})),
        json!([])
    );
}

#[test]
fn the_status_is_reported_whole_unless_the_instance_is_terminating() {
    let mut object = json!({"metadata": {}, "status": ready("True", "Running")});
    assert_eq!(
        call("InterpretStatus", &object, &json!({}))["rawStatus"],
        object["status"]
    );
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
    assert_eq!(
        call("InterpretStatus", &object, &json!({}))["rawStatus"],
        json!({})
    );
    assert_eq!(
        call("InterpretStatus", &json!({"status": null}), &json!({}))["rawStatus"],
        json!({})
    );
}

#[test]
fn healthy_means_ready() {
    let health = |status: Value| {
        call("InterpretHealth", &json!({"status": status}), &json!({}))["healthy"].clone()
    };
    assert_eq!(health(ready("True", "Running")), true);
    assert_eq!(health(ready("False", "Stopped")), false);
    assert_eq!(health(json!(null)), false);
}

#[test]
fn dependencies_come_from_the_spec_and_the_annotation() {
    let annotation = r#"["Secret/key"]"#;
    let object = json!({
        "metadata": {"namespace": "ns-1", "annotations": {api::annotations::EXPECTED_REFERENCED_DATA: annotation}},
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "settings"}}]},
    });
    let dependencies = call("InterpretDependency", &object, &json!({}))["dependencies"].take();
    let names: Vec<_> = dependencies
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["name"])
        .collect();
    assert_eq!(names, ["settings", "key"]);
}

#[test]
fn with_several_cells_the_highest_ranked_status_wins() {
    let aggregate = |former: Value, items: Value| {
        let patch = patch(&call(
            "AggregateStatus",
            &json!({"status": former}),
            &json!({"aggregatedStatus": items}),
        ));
        patch.get(0).map(|add| add["value"].clone())
    };
    let item =
        |cell: &str, status: Value| json!({"clusterName": cell, "applied": true, "status": status});
    let (running, stopped, default) = (
        ready("True", "Running"),
        ready("False", "Stopped"),
        ready("Unknown", "Pending"),
    );

    // One cell: the result is the status of the cell, for every former status.
    assert_eq!(
        aggregate(running.clone(), json!([item("a", stopped.clone())])),
        Some(stopped.clone())
    );
    assert_eq!(
        aggregate(stopped.clone(), json!([item("a", stopped.clone())])),
        None
    );
    assert_eq!(
        aggregate(running.clone(), json!([item("a", json!({}))])),
        None
    );
    assert_eq!(aggregate(json!(null), json!([])), None);
    // Several cells: the result is the status with the highest rank. If several statuses have this rank, the first cell
    // by name is used. A status with a lower rank than the former status is never used.
    let items = json!([
        item("c", stopped.clone()),
        item("b", running.clone()),
        item("a", default.clone())
    ]);
    assert_eq!(aggregate(default.clone(), items), Some(running.clone()));
    let mut other = stopped.clone();
    other["conditions"][0]["reason"] = json!("Stopping");
    let items = json!([item("b", stopped.clone()), item("a", other.clone())]);
    assert_eq!(aggregate(default.clone(), items), Some(other));
    assert_eq!(
        aggregate(running, json!([item("a", default), item("b", stopped)])),
        None
    );
}
