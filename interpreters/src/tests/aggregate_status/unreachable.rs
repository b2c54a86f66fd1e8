//! Tests of the status that the project shows in three cases: a cell is unreachable, a cell has not applied the object,
//! or no cell matches the object.

use api::Condition;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{EARLIER, NOW, aggregate, condition, find, hub, report, silent};
use crate::fold::{ResourceTemplate, StatusFold, Unreachable, no_matching_cell};

const CUT: &str = "2026-11-21T09:30:00Z";
const LATER: &str = "2026-11-21T09:40:00Z";

/// The status on the hub, and the items of its cells.
struct Hub {
    items: String,
    status: String,
    shown: Vec<Condition>,
}

impl Hub {
    fn of(items: &[Value]) -> Self {
        Self {
            items: Value::from(items).to_string(),
            status: aggregate(&hub(7, 2), items).to_string(),
            shown: Vec::new(),
        }
    }

    fn template(&self) -> ResourceTemplate<'_> {
        ResourceTemplate {
            generation: Some(7),
            min_replicas: Some(2),
            replicas: None,
            status: Some(&self.status),
            shown: &self.shown,
        }
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.status).unwrap()
    }

    /// Returns the status with these expected cells and these unreachable cells.
    fn show(
        &self,
        expected: &[&'static str],
        marks: &[(&'static str, &str, &'static str)],
    ) -> Value {
        let mut fold = StatusFold::of_items(&self.items).unwrap();
        for cell in expected {
            fold.expect([*cell]);
        }
        for (cell, since, message) in marks {
            let unreachable = Unreachable {
                since: since.parse().unwrap(),
                message: (*message).into(),
            };
            fold.mark_unreachable([(*cell, unreachable)]);
        }
        let now: Timestamp = NOW.parse().unwrap();
        serde_json::from_str(&fold.render(&self.template(), now).unwrap()).unwrap()
    }

    /// Returns the same hub, with a target that shows this status.
    fn showing(self, status: &Value) -> Self {
        let shown = serde_json::from_value(status["conditions"].clone()).unwrap();
        Self { shown, ..self }
    }
}

fn own(type_: &str, status: &str, reason: &str, since: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    })
}

#[test]
fn an_unreachable_single_cell_keeps_its_last_report() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True")]);
    let status = hub.show(&[], &[("dfw1", CUT, "cluster is not reachable")]);
    let message = format!("dfw1: unreachable since {CUT}: cluster is not reachable");
    let mut available = own("Available", "Unknown", "CellUnreachable", CUT, &message);
    available["observedGeneration"] = json!(7);
    assert_eq!(
        status,
        json!({
            "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 1, "observedGeneration": 7,
            "reportingCell": "dfw1",
            "conditions": [
                condition("ReplicasReady", "True", 7),
                available,
                own("CellsReporting", "False", "CellUnreachable", CUT, &message),
            ],
        })
    );
}

#[test]
fn available_comes_from_the_reachable_cells() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True"), report("dfw2", 7, 2, "False")]);
    let status = hub.show(&[], &[("dfw1", CUT, "")]);
    let available = find(&status, "Available");
    assert_eq!(
        [
            &available["status"],
            &available["reason"],
            &available["message"]
        ],
        ["False", "AvailableFalse", "dfw2: m"]
    );
    assert_eq!(available["lastTransitionTime"], CUT);
    assert_eq!(status["replicas"], 4);
    assert_eq!(status["cells"], hub.status()["cells"]);
    // An unreachable cell that is not available does not change `Available`.
    let status = hub.show(&[], &[("dfw2", CUT, "")]);
    assert_eq!(find(&status, "Available"), find(&hub.status(), "Available"));
    // Without a reachable cell, `Available` is Unknown since the last available cell became unreachable.
    let status = hub.show(&[], &[("dfw1", CUT, ""), ("dfw2", LATER, "")]);
    let available = find(&status, "Available");
    assert_eq!(
        [
            &available["status"],
            &available["reason"],
            &available["lastTransitionTime"]
        ],
        ["Unknown", "CellUnreachable", LATER]
    );
    assert_eq!(find(&status, "CellsReporting")["lastTransitionTime"], CUT);
}

#[test]
fn available_changed_when_the_last_better_cell_became_unreachable() {
    let items = [("a", "True"), ("b", "False"), ("c", "False")];
    let hub = Hub::of(&items.map(|(cell, available)| report(cell, 7, 2, available)));
    let status = hub.show(&[], &[("a", CUT, ""), ("b", LATER, "")]);
    let available = find(&status, "Available");
    assert_eq!(
        [&available["message"], &available["lastTransitionTime"]],
        ["c: m", CUT]
    );
}

#[test]
fn the_most_severe_problem_gives_the_reason() {
    let not_applied = json!({"clusterName": "c", "appliedMessage": "boom"});
    let hub = Hub::of(&[report("a", 7, 2, "True"), silent("b"), not_applied]);
    let reporting = |status: &Value| {
        let reporting = find(status, "CellsReporting");
        ["reason", "message", "lastTransitionTime"].map(|field| reporting[field].clone())
    };
    assert_eq!(
        reporting(&hub.show(&["a", "b", "c", "d"], &[])),
        [
            "CellNotApplied",
            "b: no status reported; c: not applied: boom; d: not applied yet",
            NOW
        ]
    );
    let message =
        format!("b: no status reported; c: unreachable since {CUT}: gone; d: not applied yet");
    assert_eq!(
        reporting(&hub.show(&["a", "d"], &[("c", CUT, "gone")])),
        ["CellUnreachable", &message, NOW],
        "the hub's transition time stays"
    );
}

#[test]
fn an_expected_cell_without_an_item_counts_as_not_applied() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True")]);
    let status = hub.show(&["dfw1", "dfw2"], &[]);
    assert_eq!(
        find(&status, "CellsReporting"),
        &own(
            "CellsReporting",
            "False",
            "CellNotApplied",
            NOW,
            "dfw2: not applied yet"
        )
    );
    assert_eq!(find(&status, "Available")["status"], "True");
    assert_eq!(status["observedGeneration"], 7);
    // An item exists for the expected cell, so nothing changes.
    assert_eq!(hub.show(&["dfw1"], &[]), hub.status());
}

#[test]
fn transition_times_stay_while_the_shown_status_stays() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True"), report("dfw2", 7, 2, "True")]);
    let first = hub.show(&[], &[("dfw1", CUT, "")]);
    let hub = hub.showing(&first);
    // One cell is reachable again while another cell becomes unreachable. At no time do all cells report.
    let second = hub.show(&[], &[("dfw2", LATER, "")]);
    assert_eq!(find(&second, "CellsReporting")["lastTransitionTime"], CUT);
    let hub = hub.showing(&second);
    let both = hub.show(&[], &[("dfw1", LATER, ""), ("dfw2", LATER, "")]);
    let hub = hub.showing(&both);
    assert_eq!(
        hub.show(&[], &[("dfw1", NOW, ""), ("dfw2", NOW, "")])["conditions"][0]["lastTransitionTime"],
        LATER
    );
    // When all cells are reachable again, the status equals the status on the hub.
    assert_eq!(hub.show(&[], &[]), hub.status());
}

#[test]
fn the_earliest_mark_of_a_cell_wins() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True")]);
    let once = hub.show(&[], &[("dfw1", CUT, "a")]);
    assert_eq!(
        hub.show(
            &[],
            &[("dfw1", LATER, ""), ("dfw1", CUT, "a"), ("dfw1", CUT, "b")]
        ),
        once
    );
}

#[test]
fn a_status_without_a_cell_name_may_belong_to_the_unreachable_cell() {
    // A former version wrote the status on the hub without the name of the cell.
    let mut alone = aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]);
    alone.as_object_mut().unwrap().remove("reportingCell");
    let items = [silent("dfw1"), silent("dfw2")];
    let hub = Hub {
        status: alone.to_string(),
        ..Hub::of(&items)
    };
    assert_eq!(find(&hub.status(), "Available")["status"], "True");
    let status = hub.show(&[], &[("dfw2", CUT, "")]);
    assert_eq!(find(&status, "Available")["status"], "Unknown");
    assert_eq!(status["replicas"], 2);
}

#[test]
fn no_matching_cell_is_shown() {
    let since: Timestamp = CUT.parse().unwrap();
    let show = |template: &ResourceTemplate<'_>| {
        let text = no_matching_cell(template, since, "no cluster fits").unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let own =
        |type_: &str, status: &str| own(type_, status, "NoMatchingCell", CUT, "no cluster fits");
    assert_eq!(
        show(&ResourceTemplate::default()),
        json!({
            "replicas": 0, "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0,
            "conditions": [own("Available", "Unknown"), own("CellsReporting", "False")],
        })
    );
    // Running instances still count, because nothing shows that they have stopped.
    let hub = Hub::of(&[report("dfw1", 7, 2, "True")]);
    let status = show(&hub.template());
    let mut available = own("Available", "Unknown");
    available["observedGeneration"] = json!(7);
    assert_eq!(status["readyReplicas"], 1);
    assert_eq!(
        status["conditions"],
        json!([
            condition("ReplicasReady", "True", 7),
            available,
            own("CellsReporting", "False")
        ])
    );
    // The shown transition time stays the same, although `since` is newer.
    let mut shown = status;
    shown["conditions"][1]["lastTransitionTime"] = json!(EARLIER);
    let hub = hub.showing(&shown);
    assert_eq!(show(&hub.template()), shown);
}
