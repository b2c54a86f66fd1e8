//! Tests of AggregateStatus on a WorkloadDeployment: examples of the rules of the fold.

mod lower_hubs;
mod memory;
mod shares;
mod twice;
mod unreachable;

use serde_json::{Value, json};

use super::{NOW, call_at, patch};

const EARLIER: &str = "2026-11-21T09:00:00Z";

/// Returns the status in the patch. Returns `None` if there is no patch.
fn aggregate_at(object: &Value, items: &[Value], now: &str) -> Option<Value> {
    let more = match items {
        [] => json!({}),
        items => json!({"aggregatedStatus": items}),
    };
    let patch = patch(&call_at(
        "WorkloadDeployment",
        "AggregateStatus",
        object,
        &more,
        now,
    ));
    let add = patch.get(0)?;
    assert_eq!(patch.as_array().unwrap().len(), 1);
    assert_eq!(
        (&add["op"], &add["path"]),
        (&json!("add"), &json!("/status"))
    );
    Some(add["value"].clone())
}

fn aggregate(object: &Value, items: &[Value]) -> Value {
    aggregate_at(object, items, NOW).expect("a patch")
}

fn hub(generation: i64, replicas: i32) -> Value {
    json!({"metadata": {"generation": generation}, "spec": {"scaleSettings": {"minReplicas": replicas}}})
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

fn condition(type_: &str, status: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": format!("{type_}{status}"), "message": "m",
        "lastTransitionTime": EARLIER, "observedGeneration": generation,
    })
}

/// Returns the item of a cell that has processed this generation of the template with this share. In the cell, the
/// generation of the object is 4.
fn report(cell: &str, template_generation: i64, assigned: i32, available: &str) -> Value {
    json!({
        "clusterName": cell, "applied": true, "health": "Healthy",
        "status": {
            "replicas": assigned, "currentReplicas": assigned, "desiredReplicas": assigned, "readyReplicas": 1,
            "observedGeneration": 4, "generation": 4, "resourceTemplateGeneration": template_generation,
            "assignedReplicas": assigned,
            "conditions": [condition("ReplicasReady", "True", 4), condition("Available", available, 4)],
        },
    })
}

fn silent(cell: &str) -> Value {
    json!({"clusterName": cell, "applied": true, "status": {}})
}

fn find<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let conditions = status["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .find(|c| c["type"] == type_)
        .unwrap_or(&Value::Null)
}

#[test]
fn without_items_the_status_stays() {
    assert_eq!(
        aggregate_at(&with_status(hub(1, 1), json!({"replicas": 3})), &[], NOW),
        None
    );
}

#[test]
fn one_cell_gives_its_status_with_translated_generations_and_without_added_fields() {
    let mut item = report("dfw1", 7, 2, "True");
    item["status"]["other"] = json!({"b": 1, "a": []});
    assert_eq!(
        aggregate(&hub(7, 2), &[item]),
        json!({
            "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 1,
            "observedGeneration": 7, "other": {"b": 1, "a": []}, "reportingCell": "dfw1",
            "conditions": [condition("ReplicasReady", "True", 7), condition("Available", "True", 7)],
        })
    );
}

#[test]
fn required_counters_are_always_present() {
    let item = json!({"clusterName": "dfw1", "applied": true, "status": {"conditions": []}});
    assert_eq!(
        aggregate(&hub(1, 1), &[item]),
        json!({
            "replicas": 0, "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0,
            "reportingCell": "dfw1",
        })
    );
}

/// A cell of a former version reports no `updatedReplicas`. A cell that does not report now counts with its last report.
#[test]
fn the_updated_instances_of_the_cells_that_report_them_are_summed() {
    let with_updated = |cell: &str, updated: i32| {
        let mut item = report(cell, 7, 2, "True");
        item["status"]["updatedReplicas"] = json!(updated);
        item
    };
    let (one, other) = (with_updated("dfw1", 1), with_updated("dfw2", 2));
    let former = report("dfw3", 7, 2, "True");
    for (items, expected) in [
        (vec![one.clone()], json!(1)),
        (vec![one.clone(), other.clone()], json!(3)),
        (vec![one.clone(), former.clone()], json!(1)),
        (vec![former.clone()], Value::Null),
        (vec![former.clone(), silent("dfw4")], Value::Null),
    ] {
        let status = aggregate(&hub(7, 2), &items);
        assert_eq!(status["updatedReplicas"], expected, "{items:?}");
    }
    let both = [one.clone(), other];
    let object = with_status(hub(7, 4), aggregate(&hub(7, 4), &both));
    assert_eq!(aggregate_at(&object, &both, NOW), None);
    let with_silent = [one, silent("dfw2")];
    let remembered = aggregate(&object, &with_silent);
    assert_eq!(remembered["updatedReplicas"], 3);
    assert_eq!(remembered["cells"][1]["updatedReplicas"], 2);
    let object = with_status(hub(7, 4), remembered);
    assert_eq!(aggregate_at(&object, &with_silent, NOW), None);
}

#[test]
fn a_selector_is_passed_only_if_all_cells_have_the_same() {
    let with_selector = |cell: &str, selector: &str| {
        let mut item = report(cell, 7, 2, "True");
        item["status"]["selector"] = json!(selector);
        item
    };
    let one = with_selector("dfw1", "uid=1");
    for (items, expected) in [
        (vec![one.clone()], json!("uid=1")),
        (
            vec![one.clone(), with_selector("dfw2", "uid=1")],
            json!("uid=1"),
        ),
        (
            vec![one.clone(), with_selector("dfw2", "uid=2")],
            Value::Null,
        ),
        (vec![one.clone(), report("dfw2", 7, 2, "True")], Value::Null),
        (vec![one.clone(), silent("dfw2")], Value::Null),
    ] {
        let status = aggregate(&hub(7, 2), &items);
        assert_eq!(status["selector"], expected, "{items:?}");
        let object = with_status(hub(7, 2), status);
        assert_eq!(aggregate_at(&object, &items, NOW), None, "{items:?}");
    }
    // The status itself is the memory of a single cell.
    let object = with_status(hub(7, 2), aggregate(&hub(7, 2), &[one]));
    assert_eq!(aggregate(&object, &[silent("dfw1")])["selector"], "uid=1");
}

/// A cell that does not report now may run its instances.
#[test]
fn a_deployment_is_suspended_only_if_all_cells_report_it() {
    let with = |cell: &str, suspended: bool| {
        let mut item = report(cell, 7, 2, "True");
        item["status"]["suspended"] = json!(suspended);
        item
    };
    let one = with("dfw1", true);
    for (items, expected) in [
        (vec![one.clone()], json!(true)),
        (vec![with("dfw1", false)], json!(false)),
        (vec![one.clone(), with("dfw2", true)], json!(true)),
        (vec![one.clone(), with("dfw2", false)], Value::Null),
        (vec![one.clone(), report("dfw2", 7, 2, "True")], Value::Null),
        (vec![one.clone(), silent("dfw2")], Value::Null),
    ] {
        let status = aggregate(&hub(7, 2), &items);
        assert_eq!(status["suspended"], expected, "{items:?}");
        let object = with_status(hub(7, 2), status);
        assert_eq!(aggregate_at(&object, &items, NOW), None, "{items:?}");
    }
    // The status itself is the memory of a single cell.
    let object = with_status(hub(7, 2), aggregate(&hub(7, 2), &[one]));
    assert_eq!(aggregate(&object, &[silent("dfw1")])["suspended"], true);
    let resumed = aggregate(&object, &[report("dfw1", 7, 2, "True")]);
    assert_eq!(resumed["suspended"], Value::Null);
}

#[test]
fn an_unchanged_status_gives_no_patch() {
    for items in [
        vec![report("dfw1", 7, 2, "True")],
        vec![report("dfw1", 7, 1, "True"), report("dfw2", 7, 1, "False")],
        vec![report("dfw1", 7, 1, "True"), silent("dfw2")],
        vec![silent("dfw1"), silent("dfw2")],
    ] {
        let object = with_status(hub(7, 2), aggregate(&hub(7, 2), &items));
        assert_eq!(
            aggregate_at(&object, &items, "2026-11-21T11:00:00Z"),
            None,
            "{items:?}"
        );
    }
}

#[test]
fn a_cell_without_observed_generation_gets_none() {
    let mut item = report("dfw1", 7, 2, "True");
    item["status"]
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration");
    for condition in item["status"]["conditions"].as_array_mut().unwrap() {
        condition
            .as_object_mut()
            .unwrap()
            .remove("observedGeneration");
    }
    let object = with_status(hub(7, 2), json!({"replicas": 1, "observedGeneration": 6}));
    let status = aggregate(&object, &[item]);
    assert!(status.get("observedGeneration").is_none());
    assert!(
        find(&status, "Available")
            .get("observedGeneration")
            .is_none()
    );
}

#[test]
fn observed_generation_waits_until_every_cell_has_acted_with_its_share() {
    let former = aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]);
    let object = with_status(hub(8, 3), former);
    let observed = |items: &[Value]| {
        let status = aggregate_at(&object, items, NOW).unwrap_or_else(|| object["status"].clone());
        assert_eq!(
            find(&status, "Available")["observedGeneration"],
            status["observedGeneration"]
        );
        status["observedGeneration"].as_i64().unwrap()
    };
    // An older template; the new template with the old share; a cell that has not processed its generation.
    assert_eq!(observed(&[report("dfw1", 7, 3, "True")]), 7);
    assert_eq!(observed(&[report("dfw1", 8, 2, "True")]), 7);
    let mut item = report("dfw1", 8, 3, "True");
    item["status"]["generation"] = json!(5);
    assert_eq!(observed(&[item]), 7);
    assert_eq!(observed(&[report("dfw1", 8, 3, "True")]), 8);
    // First Divided, then Duplicated.
    assert_eq!(
        observed(&[report("dfw1", 8, 1, "True"), report("dfw2", 8, 1, "True")]),
        7
    );
    assert_eq!(
        observed(&[report("dfw1", 8, 1, "True"), report("dfw2", 8, 2, "True")]),
        8
    );
    assert_eq!(
        observed(&[report("dfw1", 8, 3, "True"), report("dfw2", 8, 3, "True")]),
        8
    );
    assert_eq!(observed(&[report("dfw1", 8, 3, "True"), silent("dfw2")]), 7);
}

#[test]
fn a_condition_from_an_older_generation_keeps_its_former_generation() {
    let former = aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]);
    let mut item = report("dfw1", 8, 2, "True");
    item["status"]["conditions"][1]["observedGeneration"] = json!(3);
    let status = aggregate(&with_status(hub(8, 2), former), &[item]);
    assert_eq!(status["observedGeneration"], 8);
    assert_eq!(find(&status, "ReplicasReady")["observedGeneration"], 8);
    assert_eq!(find(&status, "Available")["observedGeneration"], 7);
}

#[test]
fn the_share_of_a_cell_with_an_autoscaler_is_the_assigned_one() {
    let mut item = report("dfw1", 7, 9, "True");
    item["status"]["assignedMinReplicas"] = json!(2);
    assert_eq!(
        aggregate(&hub(7, 2), std::slice::from_ref(&item))["observedGeneration"],
        7
    );
    let mut object = hub(7, 2);
    object["spec"]["replicas"] = json!(9);
    assert_eq!(aggregate(&object, &[item])["observedGeneration"], 7);
}

#[test]
fn counters_are_summed_and_conditions_joined_by_type() {
    let status = aggregate(
        &hub(7, 5),
        &[report("dfw2", 7, 3, "True"), report("dfw1", 7, 2, "False")],
    );
    assert_eq!(status["replicas"], 5);
    assert_eq!(status["readyReplicas"], 2);
    assert_eq!(
        find(&status, "Available"),
        &json!({
            "type": "Available", "status": "True", "reason": "AvailableTrue", "message": "dfw2: m",
            "lastTransitionTime": EARLIER, "observedGeneration": 7,
        })
    );
    assert_eq!(find(&status, "ReplicasReady")["message"], "dfw1: m");
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].clone())
        .collect();
    assert_eq!(types, ["Available", "ReplicasReady"]);
    let cells: Vec<_> = status["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].clone())
        .collect();
    assert_eq!(cells, ["dfw1", "dfw2"]);
    assert_eq!(status["cells"][1]["replicas"], 3);
    assert_eq!(status["cells"][1]["resourceTemplateGeneration"], 7);
}

#[test]
fn other_conditions_take_the_worst_status() {
    let mut items = [
        report("dfw1", 7, 2, "True"),
        report("dfw2", 7, 2, "True"),
        report("dfw3", 7, 2, "True"),
    ];
    items[1]["status"]["conditions"][0]["status"] = json!("Unknown");
    let status = aggregate(&hub(7, 2), &items);
    assert_eq!(find(&status, "ReplicasReady")["status"], "Unknown");
    items[2]["status"]["conditions"][0]["status"] = json!("False");
    let status = aggregate(&hub(7, 2), &items);
    assert_eq!(find(&status, "ReplicasReady")["status"], "False");
    assert_eq!(find(&status, "ReplicasReady")["message"], "dfw3: m");
}

#[test]
fn order_and_repetition_of_items_do_not_matter() {
    let items = [
        report("a", 7, 1, "True"),
        report("b", 7, 2, "False"),
        silent("c"),
        report("d", 6, 2, "Unknown"),
    ];
    let status = aggregate(&hub(7, 2), &items);
    let mut shuffled: Vec<_> = items.iter().rev().cloned().collect();
    shuffled.extend(items[1..3].iter().cloned());
    assert_eq!(aggregate(&hub(7, 2), &shuffled), status);
}

#[test]
fn a_malformed_item_counts_as_not_reported() {
    let good = report("dfw1", 7, 2, "True");
    for bad in [
        json!({"clusterName": "dfw2", "applied": true, "status": "text"}),
        json!({"clusterName": "dfw2", "applied": true, "status": {"replicas": "two"}}),
        json!({"clusterName": "dfw2", "applied": true, "status": {"conditions": [{"type": "Available"}]}}),
        json!({"clusterName": "dfw2", "applied": "yes", "status": {}}),
    ] {
        let status = aggregate(&hub(7, 2), &[good.clone(), bad.clone()]);
        assert_eq!(status["replicas"], 2, "{bad}");
        assert_eq!(
            find(&status, "CellsReporting")["message"],
            "dfw2: no status reported",
            "{bad}"
        );
    }
}

#[test]
fn counters_saturate() {
    let mut items = [report("dfw1", 7, 2, "True"), report("dfw2", 7, 2, "True")];
    for item in &mut items {
        item["status"]["replicas"] = json!(i32::MAX);
    }
    assert_eq!(aggregate(&hub(7, 2), &items)["replicas"], i32::MAX);
}

#[test]
fn the_message_names_as_many_silent_cells_as_fit() {
    let items: Vec<_> = (0..2_000).map(|n| silent(&format!("cell-{n}"))).collect();
    let status = aggregate(&hub(1, 1), &items);
    let message = find(&status, "CellsReporting")["message"].as_str().unwrap();
    assert!(message.len() <= 32_768 && message.starts_with("cell-0: no status reported; "));
    assert!(message.ends_with(" more"), "{message}");
}
