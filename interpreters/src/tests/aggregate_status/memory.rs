//! The last reports of cells that do not report now.

use serde_json::{Value, json};

use super::super::NOW;
use super::{aggregate, aggregate_at, condition, find, hub, report, silent, with_status};

#[test]
fn a_silent_cell_keeps_its_last_report_and_is_named() {
    let both = [report("dfw1", 7, 2, "True"), report("dfw2", 7, 3, "True")];
    let object = with_status(hub(7, 5), aggregate(&hub(7, 5), &both));
    let not_applied = json!({"clusterName": "dfw2", "appliedMessage": "boom", "health": "Unknown"});
    let status = aggregate(&object, &[both[0].clone(), not_applied.clone()]);
    assert_eq!(status["replicas"], 5);
    assert_eq!(status["cells"], object["status"]["cells"]);
    assert_eq!(
        find(&status, "CellsReporting"),
        &json!({
            "type": "CellsReporting", "status": "False", "reason": "CellNotApplied",
            "message": "dfw2: not applied: boom", "lastTransitionTime": NOW,
        })
    );
    // While the condition is False, its time stays the same. When all cells report, the condition is removed.
    let later = aggregate_at(
        &with_status(hub(7, 5), status),
        &[both[0].clone(), silent("dfw2")],
        "2026-11-21T12:00:00Z",
    )
    .unwrap();
    assert_eq!(find(&later, "CellsReporting")["lastTransitionTime"], NOW);
    assert_eq!(find(&later, "CellsReporting")["reason"], "CellNotReported");
    let healed = aggregate(&with_status(hub(7, 5), later), &both);
    assert_eq!(healed, object["status"]);
}

#[test]
fn the_status_itself_is_the_memory_of_a_single_cell() {
    let object = with_status(
        hub(7, 2),
        aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]),
    );
    let status = aggregate(&object, &[silent("dfw1")]);
    assert_eq!(status["replicas"], 2);
    assert_eq!(status["observedGeneration"], 7);
    assert_eq!(
        find(&status, "Available"),
        &condition("Available", "True", 7)
    );
    assert_eq!(
        find(&status, "CellsReporting")["message"],
        "dfw1: no status reported"
    );
}

#[test]
fn the_report_of_a_removed_cell_is_not_the_memory_of_another_cell() {
    let dfw1 = with_status(
        hub(7, 2),
        aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]),
    );
    for item in [silent("dfw2"), json!({"clusterName": "dfw2"})] {
        let status = aggregate(&dfw1, &[item]);
        assert_eq!(status["replicas"], 0);
        assert_eq!(find(&status, "Available"), &Value::Null);
        assert!(status.get("reportingCell").is_none());
        assert!(status.get("observedGeneration").is_none());
    }
}

#[test]
fn a_cell_that_stops_to_report_when_another_cell_begins_keeps_its_counters() {
    let dfw1 = with_status(
        hub(7, 2),
        aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]),
    );
    let both = [silent("dfw1"), report("dfw2", 7, 3, "False")];
    let status = aggregate(&dfw1, &both);
    assert_eq!(status["replicas"], 5);
    assert_eq!(find(&status, "Available")["status"], "True");
    let again = aggregate_at(&with_status(hub(7, 2), status), &both, NOW);
    assert_eq!(again, None);
}

/// A former version wrote the status of a single cell without the name of the cell.
#[test]
fn a_status_without_the_name_of_its_cell_stays_until_a_cell_reports() {
    let mut former = aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]);
    former.as_object_mut().unwrap().remove("reportingCell");
    let status = aggregate(&with_status(hub(7, 2), former), &[silent("dfw2")]);
    assert_eq!(status["replicas"], 2);
    // The cell of the status is unknown, so the status gets no name, and nothing shows that `dfw2` is available.
    assert!(status.get("reportingCell").is_none());
    let available = find(&status, "Available");
    assert_eq!(available["status"], "Unknown");
    assert_eq!(available["reason"], "CellNotReported");
    let object = with_status(hub(7, 2), status.clone());
    assert_eq!(aggregate_at(&object, &[silent("dfw2")], NOW), None);
    let reported = aggregate(
        &with_status(hub(7, 2), status),
        &[report("dfw2", 7, 1, "True")],
    );
    assert_eq!(reported["replicas"], 1);
    assert_eq!(reported["reportingCell"], "dfw2");
}

#[test]
fn counters_are_zero_before_any_report() {
    let status = aggregate(&hub(1, 2), &[json!({"clusterName": "dfw1"})]);
    assert_eq!(status["replicas"], 0);
    assert_eq!(
        find(&status, "CellsReporting")["message"],
        "dfw1: not applied yet"
    );
    assert!(status.get("observedGeneration").is_none());
}

#[test]
fn counters_survive_the_change_from_one_cell_to_two_and_back() {
    let one = [report("dfw1", 7, 2, "True")];
    let alone = aggregate(&hub(7, 2), &one);
    // A second cell is added. This cell has not reported yet.
    let joined = aggregate(
        &with_status(hub(7, 2), alone.clone()),
        &[one[0].clone(), silent("dfw2")],
    );
    assert_eq!(joined["replicas"], 2);
    assert_eq!(joined["cells"].as_array().unwrap().len(), 1);
    // The second cell reports. Then the second cell is removed while the first cell does not report.
    let both = aggregate(
        &with_status(hub(7, 2), joined),
        &[one[0].clone(), report("dfw2", 7, 2, "True")],
    );
    assert_eq!(both["replicas"], 4);
    let left = aggregate(&with_status(hub(7, 2), both), &[silent("dfw1")]);
    assert_eq!(left["replicas"], 2);
    // The status contains the name of the cell. Otherwise it could count as the last report of a new cell.
    assert_eq!(left["reportingCell"], "dfw1");
    let further = aggregate(
        &with_status(hub(7, 2), left.clone()),
        &[silent("dfw1"), report("dfw2", 7, 2, "True")],
    );
    assert_eq!(further["replicas"], 4);
    assert_eq!(aggregate(&with_status(hub(7, 2), left), &one), alone);
}
