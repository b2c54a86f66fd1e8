//! Tests of items from lower hubs. `laws/levels.rs` compares them with items from the cells themselves.

use std::{iter, slice};

use serde_json::{Value, json};

use super::{aggregate, aggregate_at, condition, hub, report, with_status};
use crate::fold::{ResourceTemplate, StatusFold, Unreachable};
use crate::tests::NOW;

/// Returns an entry of `status.cells`.
fn entry(cell: &str, share: i32, total: i32) -> Value {
    json!({
        "name": cell, "assignedReplicas": share, "templateReplicas": total, "resourceTemplateGeneration": 40,
        "conditions": [condition("Available", "True", 4)],
        "currentReplicas": share, "desiredReplicas": share, "readyReplicas": share, "replicas": share,
    })
}

/// Returns the item of a lower hub that has acted on this generation of the template with this share. There, the
/// generation of the object is 40.
fn lower_hub(cluster: &str, template_generation: i64, assigned: i32, cells: &[Value]) -> Value {
    json!({
        "clusterName": cluster, "applied": true,
        "status": {
            "cells": cells, "conditions": [condition("Available", "True", 40)],
            "assignedReplicas": assigned, "resourceTemplateGeneration": template_generation,
            "generation": 40, "observedGeneration": 40,
            "currentReplicas": assigned, "desiredReplicas": assigned, "readyReplicas": assigned, "replicas": assigned,
        },
    })
}

/// Returns the status of an object of generation 1 that wants 4 Instances in each cell, while these cells do not answer.
fn render_marked(mut fold: StatusFold<'_>, marks: &[&str]) -> Value {
    let mark = Unreachable {
        since: NOW.parse().unwrap(),
        message: "no answer".into(),
    };
    let marks = marks.iter().map(|cell| ((*cell).to_owned(), mark.clone()));
    fold.mark_unreachable(marks);
    let template = ResourceTemplate {
        generation: Some(1),
        min_replicas: Some(4),
        replicas: None,
        status: None,
        shown: &[],
    };
    let status = fold.render(&template, NOW.parse().unwrap()).unwrap();
    serde_json::from_str(&status).unwrap()
}

fn of_type<'s>(status: &'s Value, type_: &str) -> &'s Value {
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    conditions
        .find(|condition| condition["type"] == type_)
        .unwrap()
}

fn names(status: &Value) -> Vec<&str> {
    let cells = status["cells"].as_array().unwrap();
    cells
        .iter()
        .map(|cell| cell["name"].as_str().unwrap())
        .collect()
}

#[test]
fn cells_are_named_after_their_lower_hub() {
    let of_two = lower_hub("dfw", 1, 4, &[entry("a1", 3, 4), entry("deep.b", 1, 4)]);
    let status = aggregate(&hub(1, 6), &[report("dfw-2", 1, 2, "True"), of_two]);
    assert_eq!(names(&status), ["dfw-2", "dfw.a1", "dfw.deep.b"]);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["cells"][1]["assignedReplicas"], 3);
    assert_eq!(status["cells"][1]["templateReplicas"], 6);
    assert_eq!(status["cells"][1]["resourceTemplateGeneration"], 1);
    assert_eq!(status["conditions"][0]["message"], "dfw-2: m");
}

#[test]
fn the_only_cell_below_gives_its_status() {
    let mut item = lower_hub("dfw", 1, 4, &[]);
    item["status"]["reportingCell"] = json!("a1");
    item["status"]["other"] = json!({"kept": true});
    let status = aggregate(&hub(1, 4), &[item]);
    assert_eq!(status["reportingCell"], "dfw.a1");
    assert_eq!(status["other"]["kept"], true);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["conditions"][0]["message"], "m");
    let silent = json!({"clusterName": "dfw", "applied": false});
    let silent = aggregate(&with_status(hub(1, 4), status.clone()), &[silent]);
    assert_eq!(silent["reportingCell"], "dfw.a1");
    assert_eq!(silent["replicas"], 4);
    assert_eq!(silent["conditions"][1]["message"], "dfw: not applied yet");
}

#[test]
fn a_silent_lower_hub_keeps_its_cells() {
    let of_two = lower_hub("dfw", 1, 4, &[entry("a1", 3, 4), entry("a2", 1, 4)]);
    let first = aggregate(&hub(1, 6), &[of_two, report("dfw-2", 1, 2, "True")]);
    for status in [Value::Null, json!({}), lower_hub_without_reports()] {
        let silent = json!({"clusterName": "dfw", "applied": true, "status": status});
        let object = with_status(hub(1, 6), first.clone());
        let status = aggregate(&object, &[silent, report("dfw-2", 1, 2, "True")]);
        assert_eq!(status["cells"], first["cells"]);
        assert_eq!(status["replicas"], 6);
        assert_eq!(of_type(&status, "CellsReporting")["status"], "False");
    }
}

/// Returns the status of a lower hub to which no cell has reported.
fn lower_hub_without_reports() -> Value {
    json!({
        "conditions": [{
            "type": "CellsReporting", "status": "False", "reason": "CellNotApplied", "message": "a1: not applied yet",
            "lastTransitionTime": NOW,
        }],
        "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0, "replicas": 0,
        "generation": 40, "resourceTemplateGeneration": 1, "assignedReplicas": 4,
    })
}

#[test]
fn a_lower_hub_tells_which_of_its_cells_do_not_report() {
    let item =
        json!({"clusterName": "dfw", "applied": true, "status": lower_hub_without_reports()});
    let status = aggregate(&hub(1, 4), &[item]);
    let reporting = &status["conditions"][0];
    assert_eq!(reporting["reason"], "CellNotApplied");
    assert_eq!(reporting["message"], "dfw: a1: not applied yet");
    assert_eq!(status["replicas"], 0);
    assert_eq!(status.get("reportingCell"), None);

    // The most severe reason is that of the lower hub.
    let mut item = lower_hub("dfw", 1, 4, &[entry("a1", 3, 4)]);
    let reporting = lower_hub_without_reports()["conditions"][0].clone();
    item["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(reporting);
    let silent = json!({"clusterName": "ord", "applied": true});
    let status = aggregate(&hub(1, 6), &[item, silent]);
    let reporting = of_type(&status, "CellsReporting");
    assert_eq!(reporting["reason"], "CellNotApplied");
    assert_eq!(
        reporting["message"],
        "dfw: a1: not applied yet; ord: no status reported"
    );
    assert_eq!(status.get("observedGeneration"), None);
    assert_eq!(names(&status), ["dfw.a1"]);
}

#[test]
fn former_shares_of_lower_hubs_that_match_by_chance_are_not_current() {
    for (total, shares, new_total) in [
        // The sum of the shares equals the total. Each share of a Cluster equals the next total.
        (4, [[1, 1], [1, 1]], 2),
        // Each share equals the total. The sum of the shares of the Clusters equals the next total.
        (2, [[2, 2], [2, 2]], 4),
    ] {
        let items = |generation| {
            let item = |cluster, [one, other]: [i32; 2]| {
                let share = if one == total { total } else { one + other };
                let cells = [entry("a1", one, share), entry("a2", other, share)];
                lower_hub(cluster, generation, share, &cells)
            };
            [item("dfw", shares[0]), item("ord", shares[1])]
        };
        let first = aggregate(&hub(1, total), &items(1));
        assert_eq!(first["observedGeneration"], 1);
        let next = aggregate(&with_status(hub(2, new_total), first), &items(2));
        assert_eq!(next["observedGeneration"], 1, "{shares:?} of {new_total}");
    }
}

#[test]
fn the_generation_of_a_lower_hub_whose_object_is_new_is_not_forgotten() {
    let first = aggregate(
        &hub(3, 4),
        &[lower_hub(
            "dfw",
            3,
            4,
            &[entry("a1", 2, 4), entry("a2", 2, 4)],
        )],
    );
    assert_eq!(first["observedGeneration"], 3);
    let mut anew = lower_hub("dfw", 4, 4, &[entry("a1", 2, 4), entry("a2", 2, 4)]);
    anew["status"]
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration");
    let next = aggregate(&with_status(hub(4, 4), first), &[anew]);
    assert_eq!(next["observedGeneration"], 3);
}

#[test]
fn a_dead_cell_below_and_a_dead_lower_hub_are_shown() {
    let items = json!([
        lower_hub("dfw", 1, 4, &[entry("a1", 2, 4), entry("a2", 2, 4)]),
        report("ord", 1, 4, "True"),
    ])
    .to_string();
    let rendered = |marks: &[&str]| {
        let fold = StatusFold::of_items(&items).unwrap();
        assert_eq!(fold.cells_below(&iter::empty()), ["dfw.a1", "dfw.a2"]);
        let status = render_marked(fold, marks);
        assert_eq!(names(&status), ["dfw.a1", "dfw.a2", "ord"]);
        let message = |type_| {
            of_type(&status, type_)["message"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        (message("Available"), message("CellsReporting"))
    };
    let dead = |cell: &str| format!("{cell}: unreachable since 2026-11-21T10:00:00Z: no answer");
    assert_eq!(
        rendered(&["dfw.a1"]),
        ("dfw.a2: m".to_owned(), dead("dfw.a1"))
    );
    assert_eq!(rendered(&["dfw"]), ("ord: m".to_owned(), dead("dfw")));
    assert_eq!(
        rendered(&["dfw", "dfw.a2"]),
        ("ord: m".to_owned(), dead("dfw"))
    );
}

#[test]
fn a_settled_lower_hub_changes_nothing() {
    let items = [lower_hub(
        "dfw",
        1,
        4,
        &[entry("a1", 2, 4), entry("a2", 2, 4)],
    )];
    let status = aggregate(&hub(1, 4), &items);
    assert_eq!(
        aggregate_at(
            &with_status(hub(1, 4), status),
            &items,
            "2026-11-22T10:00:00Z"
        ),
        None
    );
}

#[test]
fn a_silent_lower_hub_keeps_the_generation_and_the_names_of_its_cells() {
    let of_two = lower_hub("dfw", 1, 4, &[entry("a1", 2, 4), entry("a2", 2, 4)]);
    let first = aggregate(&hub(1, 4), &[of_two]);
    assert_eq!(first["observedGeneration"], 1);
    for silent in [
        json!({"clusterName": "dfw", "applied": false, "appliedMessage": "denied"}),
        json!({"clusterName": "dfw", "applied": true, "status": lower_hub_without_reports()}),
    ] {
        let items = json!([silent]).to_string();
        let fold = StatusFold::of_items(&items).unwrap();
        let remembered = ["dfw.a1", "dfw.a2", "dfw-2", "dfw-2.a1"].into_iter();
        assert_eq!(fold.cells_below(&remembered), ["dfw.a1", "dfw.a2"]);

        let status = aggregate(
            &with_status(hub(1, 4), first.clone()),
            slice::from_ref(&silent),
        );
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["cells"], first["cells"]);
        assert_eq!(of_type(&status, "Available")["observedGeneration"], 1);
        // One of several cells that has reported is not the only one.
        let mut one = first.clone();
        one["cells"].as_array_mut().unwrap().pop();
        let status = aggregate(&with_status(hub(1, 4), one), &[silent]);
        assert_eq!(names(&status), ["dfw.a1"]);
        assert_eq!(status["cells"][0]["assignedReplicas"], 2);
        assert_eq!(status.get("reportingCell"), None);
    }
}

#[test]
fn a_cell_that_claims_to_be_a_lower_hub_does_not_speak_for_others() {
    let reporting = json!({
        "type": "CellsReporting", "status": "True", "reason": "Fine", "message": "m", "lastTransitionTime": NOW,
    });
    let mut of_cell = entry("x", 1, 1);
    of_cell["conditions"]
        .as_array_mut()
        .unwrap()
        .push(reporting.clone());
    let evil = lower_hub("evil", 1, 1, &[of_cell]);
    let silent = json!({"clusterName": "good", "applied": true});
    let status = aggregate(&hub(1, 2), &[evil, silent.clone()]);
    let conditions = status["conditions"].as_array().unwrap();
    let own: Vec<_> = conditions
        .iter()
        .filter(|it| it["type"] == "CellsReporting")
        .collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["message"], "good: no status reported");

    let mut evil = lower_hub("evil", 1, 1, &[entry("x", 1, 1)]);
    let mut reporting = reporting;
    reporting["status"] = json!("False");
    for reason in ["HubRefused", "CellUnreachable", "NoMatchingCell"] {
        reporting["reason"] = json!(reason);
        evil["status"]["conditions"] = json!([reporting]);
        let items = [evil.clone(), json!({"clusterName": "good"})];
        let status = aggregate(&hub(1, 2), &items);
        assert_eq!(
            of_type(&status, "CellsReporting")["reason"],
            "CellNotApplied"
        );
        let status = aggregate(&hub(1, 2), &[evil.clone(), silent.clone()]);
        assert_eq!(
            of_type(&status, "CellsReporting")["reason"],
            "CellNotReported"
        );
    }
}

#[test]
fn cells_with_long_names_are_not_mixed_up() {
    let long = |end: &str| format!("{}.{end}", "x".repeat(63));
    let cells = [entry(&long("a1"), 2, 4), entry(&long("a2"), 2, 4)];
    let items = json!([lower_hub("dfw", 1, 4, &cells)]).to_string();
    let fold = StatusFold::of_items(&items).unwrap();
    let below = fold.cells_below(&iter::empty());
    assert_eq!(
        below,
        [format!("dfw.{}", long("a1")), format!("dfw.{}", long("a2"))]
    );
    let status = render_marked(fold, &[&below[0]]);
    assert_eq!(names(&status), below);
    assert_eq!(status["replicas"], 4);
    assert_eq!(status["observedGeneration"], 1);
    let message = of_type(&status, "CellsReporting")["message"]
        .as_str()
        .unwrap();
    assert!(message.starts_with(&below[0]), "{message}");
}

/// The object of a lower hub. Karmada of the upper hub has written the annotation.
fn on_lower_hub(status: Value) -> Value {
    let mut object = with_status(hub(40, 4), status);
    object["metadata"]["annotations"] = json!({"resourcetemplate.karmada.io/generation": "1"});
    object
}

/// Karmada of the lower hub deletes the object in the last cell. It may not reach the cell, so the numbers stay.
#[test]
fn an_object_without_reports_on_a_lower_hub_keeps_the_last_numbers() {
    let later = "2026-11-21T11:00:00Z";
    for items in [
        vec![report("a1", 1, 4, "True")],
        vec![report("a1", 1, 2, "True"), report("a2", 1, 2, "True")],
    ] {
        let before = aggregate(&on_lower_hub(Value::Null), &items);
        let left = aggregate(&on_lower_hub(before.clone()), &[]);
        assert_eq!(left["replicas"], before["replicas"]);
        assert_eq!(left["readyReplicas"], before["readyReplicas"]);
        assert!(left["cells"].is_null() && left["reportingCell"].is_null());
        for (type_, status) in [("Available", "Unknown"), ("CellsReporting", "False")] {
            let condition = of_type(&left, type_);
            assert_eq!(condition["status"], status);
            assert_eq!(condition["reason"], "NoMatchingCell");
            assert_eq!(condition["lastTransitionTime"], NOW);
        }
        let again = aggregate_at(&on_lower_hub(left.clone()), &[], later);
        assert_eq!(again, None, "it settles");
        assert_eq!(aggregate(&on_lower_hub(left.clone()), &items), before);
        // A new cell does not report, and is removed again.
        let new = json!({"clusterName": "a9", "applied": false});
        let with_new = aggregate(&on_lower_hub(left.clone()), &[new]);
        assert_eq!(with_new["replicas"], before["replicas"]);
        let reporting = of_type(&with_new, "CellsReporting");
        assert_eq!(reporting["reason"], "CellNotApplied");
        assert_eq!(aggregate(&on_lower_hub(with_new), &[]), left);

        // On the hub, and while the object ends, the status stays.
        let on_hub = with_status(hub(40, 4), before.clone());
        assert_eq!(aggregate_at(&on_hub, &[], later), None);
        let mut ending = on_lower_hub(before);
        ending["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(aggregate_at(&ending, &[], later), None);
    }
    // No cell has ever reported: Karmada may not have selected one yet.
    for status in [Value::Null, json!({"replicas": 1})] {
        let object = on_lower_hub(status);
        assert_eq!(aggregate_at(&object, &[], later), None);
    }
}

/// The hub names no cell below, and says why.
#[test]
fn a_lower_hub_without_reports_counts_as_a_cell_with_the_last_numbers() {
    let before = aggregate(&on_lower_hub(Value::Null), &[report("a1", 1, 4, "True")]);
    let item = |mut status: Value| {
        status["generation"] = json!(40);
        status["resourceTemplateGeneration"] = json!(1);
        json!({"clusterName": "dfw", "applied": true, "status": status})
    };
    let left = aggregate(&on_lower_hub(before.clone()), &[]);
    let new = json!({"clusterName": "a9", "applied": false});
    let with_new = item(aggregate(&on_lower_hub(left.clone()), &[new]));
    let left = item(left);
    let no_report = "dfw: Karmada of the lower hub has no report of a cell";
    let ord = report("ord", 1, 4, "True");
    for (left, others, reason, message) in [
        (&left, vec![], "CellNotReported", no_report),
        (&left, vec![ord.clone()], "CellNotReported", no_report),
        (
            &with_new,
            vec![ord],
            "CellNotApplied",
            "dfw: a9: not applied yet",
        ),
    ] {
        let with = |item: &Value| {
            let mut items = others.clone();
            items.insert(0, item.clone());
            items
        };
        let former = aggregate(&hub(1, 4), &with(&item(before.clone())));
        assert_eq!(former["replicas"], json!(4 * (1 + others.len())));
        let object = with_status(hub(2, 4), former);
        let status = aggregate(&object, &with(left));
        assert_eq!(status["replicas"], json!(4 * (1 + others.len())));
        let reporting = of_type(&status, "CellsReporting");
        assert_eq!(reporting["reason"], reason);
        assert_eq!(reporting["message"], message);
        let available = if others.is_empty() { "Unknown" } else { "True" };
        assert_eq!(of_type(&status, "Available")["status"], available);
        assert_ne!(status["observedGeneration"], 2, "not current");
        let text = status.to_string();
        assert!(!text.contains("dfw.a1"), "{text}");
        let settled = with_status(hub(2, 4), status);
        assert_eq!(aggregate_at(&settled, &with(left), NOW), None);
    }
}
