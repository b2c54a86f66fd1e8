//! What is shown of a hub's status where cells cannot be reached, have not got the object, or do not exist.

use api::Condition;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{EARLIER, NOW, aggregate, condition, find, hub, report, silent, with_status};
use crate::fold::{ResourceTemplate, StatusFold, Unreachable, no_matching_cell};

const CUT: &str = "2026-11-21T09:30:00Z";
const LATER: &str = "2026-11-21T09:40:00Z";

/// What the hub has and its cells say.
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

    /// What is shown with these cells expected and these marked.
    fn show(
        &self,
        expected: &[&'static str],
        marks: &[(&'static str, &str, &'static str)],
    ) -> Value {
        let mut fold = StatusFold::of_items(&self.items).unwrap();
        for cell in expected {
            fold.expect(*cell);
        }
        for (cell, since, message) in marks {
            let unreachable = Unreachable {
                since: since.parse().unwrap(),
                message: (*message).into(),
            };
            fold.mark_unreachable(*cell, unreachable);
        }
        let now: Timestamp = NOW.parse().unwrap();
        serde_json::from_str(&fold.render(&self.template(), now).unwrap()).unwrap()
    }

    /// The same hub, seen where this is shown already.
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
fn of_a_single_cell_that_is_cut_off_nothing_but_its_last_words_is_known() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True")]);
    let status = hub.show(&[], &[("dfw1", CUT, "cluster is not reachable")]);
    let message = format!("dfw1: unreachable since {CUT}: cluster is not reachable");
    let mut available = own("Available", "Unknown", "CellUnreachable", CUT, &message);
    available["observedGeneration"] = json!(7);
    assert_eq!(
        status,
        json!({
            "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 1, "observedGeneration": 7,
            "conditions": [
                condition("ReplicasReady", "True", 7),
                available,
                own("CellsReporting", "False", "CellUnreachable", CUT, &message),
            ],
        })
    );
}

#[test]
fn available_is_what_the_cells_say_that_can_be_reached() {
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
    // The loss of the other one changes nothing of it.
    let status = hub.show(&[], &[("dfw2", CUT, "")]);
    assert_eq!(find(&status, "Available"), find(&hub.status(), "Available"));
    // Without any, it is unknown since the last of them that had it went.
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
fn what_is_taken_away_is_a_better_word_than_is_left() {
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
fn the_reason_is_the_one_that_weighs_most() {
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
        "since the hub says so"
    );
}

#[test]
fn a_cell_that_is_expected_has_not_applied_the_object() {
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
    // One that is named is not asked for twice.
    assert_eq!(hub.show(&["dfw1"], &[]), hub.status());
}

#[test]
fn times_stay_while_what_is_shown_stays() {
    let hub = Hub::of(&[report("dfw1", 7, 2, "True"), report("dfw2", 7, 2, "True")]);
    let first = hub.show(&[], &[("dfw1", CUT, "")]);
    let hub = hub.showing(&first);
    // While one returns and the other goes there is no time at which all report.
    let second = hub.show(&[], &[("dfw2", LATER, "")]);
    assert_eq!(find(&second, "CellsReporting")["lastTransitionTime"], CUT);
    let hub = hub.showing(&second);
    let both = hub.show(&[], &[("dfw1", LATER, ""), ("dfw2", LATER, "")]);
    let hub = hub.showing(&both);
    assert_eq!(
        hub.show(&[], &[("dfw1", NOW, ""), ("dfw2", NOW, "")])["conditions"][0]["lastTransitionTime"],
        LATER
    );
    // What heals leaves nothing behind.
    assert_eq!(hub.show(&[], &[]), hub.status());
}

#[test]
fn of_two_marks_of_a_cell_the_first_stays() {
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
fn what_a_single_cell_said_is_not_taken_for_the_words_of_another() {
    // The hub's status does not name the cell that it is of.
    let alone = aggregate(&hub(7, 2), &[report("dfw1", 7, 2, "True")]);
    let items = [silent("dfw1"), silent("dfw2")];
    let object = with_status(hub(7, 2), alone);
    let hub = Hub {
        status: aggregate(&object, &items).to_string(),
        ..Hub::of(&items)
    };
    assert_eq!(find(&hub.status(), "Available")["status"], "True");
    let status = hub.show(&[], &[("dfw2", CUT, "")]);
    assert_eq!(find(&status, "Available")["status"], "Unknown");
    assert_eq!(status["replicas"], 2);
}

#[test]
fn where_no_cell_fits_that_is_what_is_shown() {
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
    // What ran is still counted: it is not known to be gone.
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
    // Since it is shown, not since the evidence was renewed.
    let mut shown = status;
    shown["conditions"][1]["lastTransitionTime"] = json!(EARLIER);
    let hub = hub.showing(&shown);
    assert_eq!(show(&hub.template()), shown);
}
