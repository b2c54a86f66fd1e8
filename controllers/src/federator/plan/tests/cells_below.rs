//! Tests of what a plan does about cells below a lower hub.

use serde_json::Value;

use super::cells::{bound, planned};
use super::*;

/// Returns the entry of a cell below.
fn entry(name: &str, acted: i64) -> Value {
    json!({"name": name, "resourceTemplateGeneration": acted})
}

fn several(entries: &[Value]) -> Value {
    json!({"observedGeneration": 7, "cells": entries})
}

fn behind() -> Value {
    several(&[entry("a1", 7), entry("a2", 8)])
}

fn both() -> Value {
    several(&[entry("a1", 8), entry("a2", 8)])
}

fn only(cell: &str, observed: i64) -> Value {
    json!({"observedGeneration": observed, "reportingCell": cell})
}

/// Returns the status with a condition about the cells that do not report.
fn with(mut status: Value, reason: &str, message: &str) -> Value {
    status["conditions"] = json!([
        {"type": "Available", "status": "True"},
        {"type": "CellsReporting", "status": "False", "reason": reason, "message": message},
    ]);
    status
}

/// Nothing is stale.
const NOTHING_STALE: (bool, bool) = (false, false);

/// Checks whether the namespace and the copy are stale in a lower hub with this status. The object of the lower hub has
/// generation 8, and is that of the copy. The cell `cut` below cannot be reached.
fn assert_stale(mut status: Value, expected: (bool, bool)) {
    let deployment = recorded("DFW");
    let hub = complete(&deployment);
    status["resourceTemplateGeneration"] = json!(7);
    status["generation"] = json!(8);
    let item = json!({"clusterName": LOWER_HUB, "applied": true, "status": status});
    let bound = bound(&[LOWER_HUB], &[item]);
    let staleness = planned(&deployment, &hub, &bound, &["dfw.cut"], None).staleness;
    let is_stale = expected != NOTHING_STALE;
    assert_eq!((staleness.namespace, staleness.copy), expected, "{status}");
    let (stale, complete) = (staleness.lower_hubs, staleness.complete);
    assert_eq!(stale.contains(LOWER_HUB), is_stale, "{status}");
    assert_eq!(complete.contains(LOWER_HUB), !is_stale, "{status}");
    assert!(staleness.cells.is_empty(), "{status}");
}

/// Karmada of the lower hub counts a request as successful even if the request timed out.
#[test]
fn cells_below_a_lower_hub_that_have_not_acted_are_stale() {
    let nothing = NOTHING_STALE;
    let long = ".".repeat(254);
    for (status, expected) in [
        (behind(), (false, true)),
        // All have acted on the object.
        (both(), nothing),
        (several(&[entry("cut", 7), entry("a2", 8)]), nothing),
        (several(&[entry("cut", 7), entry("a2", 7)]), (false, true)),
        (several(&[json!({"name": "a1"})]), nothing),
        (only("a1", 7), (false, true)),
        (only("a1", 8), nothing),
        (only("cut", 7), nothing),
        // A cell of the hub whose manager is dead.
        (json!({"observedGeneration": 7}), nothing),
        // No cell can have this name.
        (several(&[entry(&long, 7), entry("a2", 8)]), nothing),
    ] {
        assert_stale(status, expected);
    }
}

/// Karmada of the lower hub counts a request as successful even if the request timed out.
#[test]
fn objects_missing_below_a_lower_hub_are_stale() {
    let nothing = NOTHING_STALE;
    let missing = r#"a1: not applied: namespaces "default" not found"#;
    for (status, expected) in [
        // Karmada of the lower hub has never seen the object in a cell.
        (
            with(both(), "CellNotReported", "a3: no status reported"),
            (true, true),
        ),
        (
            with(json!({}), "CellNotReported", "a3: no status reported"),
            (true, true),
        ),
        (
            with(both(), "CellNotReported", "cut: no status reported"),
            nothing,
        ),
        // Karmada of the lower hub retries by itself.
        (
            with(
                several(&[entry("a1", 7)]),
                "CellNotApplied",
                "a1: not applied: denied",
            ),
            nothing,
        ),
        (with(both(), "CellNotApplied", missing), (true, false)),
        // The reason is that of another cell than the one that Karmada has never seen the object in.
        (
            with(
                json!({}),
                "CellNotApplied",
                "a1: not applied: denied; a2: no status reported",
            ),
            (true, true),
        ),
        (
            with(
                json!({}),
                "CellNotApplied",
                "a1: not applied: denied; cut: no status reported",
            ),
            nothing,
        ),
        // The message is about another cell than the one that is behind.
        (
            with(behind(), "CellNotReported", "cut: no status reported"),
            (false, true),
        ),
        (
            with(behind(), "CellNotApplied", "a3: not applied yet"),
            (false, true),
        ),
        // It may be about this one.
        (
            with(
                behind(),
                "CellNotApplied",
                "a3: not applied yet; and 2 more",
            ),
            nothing,
        ),
        (
            with(
                several(&[entry("mid.a1", 7)]),
                "CellNotApplied",
                "mid: a1: not applied yet",
            ),
            nothing,
        ),
        // Its policy selects no cell.
        (
            with(only("a1", 7), "NoMatchingCell", "Karmada has no report"),
            nothing,
        ),
    ] {
        assert_stale(status, expected);
    }
}

/// A cell can write the fields of a lower hub into its status.
#[test]
fn a_cell_that_is_no_lower_hub_says_nothing_of_cells_below() {
    let deployment = recorded("DFW");
    let hub = complete(&deployment);
    let status = json!({
        "resourceTemplateGeneration": 7, "generation": 8, "observedGeneration": 8,
        "cells": [{"name": "a1", "resourceTemplateGeneration": 7}],
    });
    for (cluster, is_stale) in [(LOWER_HUB, true), ("dfw1", false)] {
        let item = json!({"clusterName": cluster, "applied": true, "status": status});
        let bound = bound(&[cluster], &[item]);
        let staleness = planned(&deployment, &hub, &bound, &[], None).staleness;
        assert_eq!(staleness.copy, is_stale, "{cluster}");
        assert_eq!(staleness.complete.contains(cluster), !is_stale, "{cluster}");
    }
}
