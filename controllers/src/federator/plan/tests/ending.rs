//! Tests of the deletion of a WorkloadDeployment that has Instances in cells.

use api::condition;
use api::karmada::ResourceBinding;
use api::reasons::workload_deployment::{CELLS_NOT_AWAITED, INSTANCES_REMAIN};
use api::workload_deployment::INSTANCES_ENDED;
use serde_json::Value;

use super::cells::{bound, planned};
use super::*;

/// The generation of the copy.
const GENERATION: i64 = 7;

/// Returns the report of a cell that has acted on this generation of the copy.
fn report(cell: &str, generation: i64, instances: i64) -> Value {
    json!({"clusterName": cell, "applied": true, "status": {
        "resourceTemplateGeneration": generation, "generation": 3, "observedGeneration": 3, "replicas": instances,
    }})
}

/// Returns the report of a lower hub about the cells below it.
fn report_below(lower_hub: &str, is_current: bool, cells: &[(&str, i64)]) -> Value {
    let mut report = report(lower_hub, GENERATION, cells.iter().map(|(_, it)| it).sum());
    let cells = cells.iter();
    let cells = cells.map(|(name, instances)| json!({"name": name, "replicas": instances}));
    report["status"]["cells"] = cells.collect();
    if !is_current {
        report["status"]["observedGeneration"] = json!(2);
    }
    report
}

/// Returns a WorkloadDeployment that was deleted so many seconds ago.
fn deleted(seconds: i64) -> WorkloadDeployment {
    let mut deployment = terminating(recorded("DFW"));
    let since = now() - jiff::SignedDuration::from_secs(seconds);
    deployment.metadata.deletion_timestamp.as_mut().unwrap().0 = since;
    deployment
}

/// Returns a hub with the copy of a WorkloadDeployment. `asked` is whether the cells have been asked to end its
/// Instances.
fn hub_of(deployment: &WorkloadDeployment, asked: bool) -> HubFixture {
    let mut live = deployment.clone();
    live.metadata.deletion_timestamp = None;
    let mut hub = complete(&live);
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.metadata.generation = Some(GENERATION);
    copy.status = None;
    if asked {
        copy.spec = copy.spec.without_instances();
        let annotations = copy.metadata.annotations.get_or_insert_default();
        annotations.insert(annotations::ENDING.into(), "true".into());
    }
    hub
}

/// The step of a deletion, with the message about the cells.
fn step(asked: bool, binding: &ResourceBinding, cut_off: &[&str]) -> (&'static str, String) {
    step_after(10, asked, binding, cut_off)
}

fn step_after(
    seconds: i64,
    asked: bool,
    binding: &ResourceBinding,
    cut_off: &[&str],
) -> (&'static str, String) {
    let deployment = deleted(seconds);
    let plan = planned(
        &deployment,
        &hub_of(&deployment, asked),
        binding,
        cut_off,
        None,
    );
    assert!(!plan.release);
    let step = match (&plan.apply_copy, plan.delete_copy, plan.waits) {
        (Some(_), false, Some(_)) => "ask",
        (None, false, Some(_)) => "wait",
        (None, true, None) => "delete",
        _ => panic!("{plan:?}"),
    };
    let shown = plan.status.unwrap_or_default();
    let ended = condition::find(&shown.conditions, INSTANCES_ENDED);
    let expected = if step == "delete" {
        CELLS_NOT_AWAITED
    } else {
        INSTANCES_REMAIN
    };
    assert!(ended.is_none_or(|it| it.is_false() && it.reason == expected));
    let message = ended.map(|it| it.message.clone()).unwrap_or_default();
    let cells = message.split(" instances in ").nth(1).unwrap_or_default();
    (step, cells.trim_end_matches(" to end").to_owned())
}

/// I-34: a report about a former copy says nothing.
#[test]
fn a_deletion_waits_until_each_cell_has_acted_on_the_copy_and_has_no_instances() {
    let (old, none) = (GENERATION - 1, Vec::<Value>::new());
    let mut unobserved = report("dfw1", GENERATION, 0);
    unobserved["status"]["observedGeneration"] = json!(2);
    let not_applied = json!({"clusterName": "dfw1", "applied": false, "appliedMessage": "refused"});
    let two = ["dfw1", "dfw2"];
    for (cells, items, expected) in [
        (
            &two[..1],
            vec![report("dfw1", GENERATION, 0)],
            ("delete", ""),
        ),
        (
            &two[..1],
            vec![report("dfw1", GENERATION, 2)],
            ("wait", "dfw1 (2)"),
        ),
        (
            &two[..1],
            vec![report("dfw1", old, 0)],
            ("wait", "dfw1 (number unknown)"),
        ),
        (
            &two[..1],
            vec![report("dfw1", old, 2)],
            ("wait", "dfw1 (2)"),
        ),
        (
            &two[..1],
            vec![unobserved],
            ("wait", "dfw1 (number unknown)"),
        ),
        (
            &two[..1],
            vec![not_applied],
            ("wait", "dfw1 (number unknown)"),
        ),
        (
            &two[..1],
            vec![json!({"clusterName": "dfw1", "applied": true, "status": {}})],
            ("wait", "dfw1 (number unknown)"),
        ),
        (
            &two[..1],
            vec![json!({"clusterName": "dfw1", "status": 3})],
            ("wait", "dfw1 (number unknown)"),
        ),
        (&two[..1], none.clone(), ("wait", "dfw1 (number unknown)")),
        (&two[..0], none, ("delete", "")),
        (
            &two,
            vec![report("dfw1", GENERATION, 0), report("dfw2", GENERATION, 1)],
            ("wait", "dfw2 (1)"),
        ),
        (
            &two,
            vec![report("dfw1", GENERATION, 0), report("dfw2", GENERATION, 0)],
            ("delete", ""),
        ),
        // The city has lost dfw2, and the object is still there.
        (
            &two[..1],
            vec![report("dfw1", GENERATION, 0), report("dfw2", GENERATION, 1)],
            ("wait", "dfw2 (1)"),
        ),
    ] {
        let (step, message) = step(true, &bound(cells, &items), &[]);
        assert_eq!((step, message.as_str()), expected, "{items:?}");
    }
}

/// I-34: no cell blocks a deletion for ever.
#[test]
fn cells_that_cannot_be_reached_and_those_that_take_too_long_are_not_waited_for() {
    let running = [report("dfw1", GENERATION, 2), report("dfw2", GENERATION, 1)];
    let binding = bound(&["dfw1", "dfw2"], &running);
    let both = "dfw1 (2), dfw2 (1)";
    for (seconds, asked, cut_off, expected) in [
        // Most deletions are over by then.
        (1, false, &[][..], ("ask", "")),
        (1, true, &[], ("wait", "")),
        (2, false, &[], ("ask", both)),
        (2, true, &[], ("wait", both)),
        (179, false, &[], ("ask", both)),
        (179, true, &[], ("wait", both)),
        (180, true, &[], ("delete", both)),
        (180, false, &[], ("delete", both)),
        (
            10,
            true,
            &["dfw1"],
            ("wait", "dfw1 (2, cannot be reached), dfw2 (1)"),
        ),
        (
            0,
            false,
            &["dfw1", "dfw2"],
            (
                "delete",
                "dfw1 (2, cannot be reached), dfw2 (1, cannot be reached)",
            ),
        ),
    ] {
        let (step, message) = step_after(seconds, asked, &binding, cut_off);
        assert_eq!(
            (step, message.as_str()),
            expected,
            "{seconds} {asked} {cut_off:?}"
        );
    }
    // The cells are not known.
    let deployment = deleted(0);
    let plan = plan_for(&deployment, &hub_of(&deployment, false));
    assert!(plan.delete_copy && plan.apply_copy.is_none() && plan.status.is_none());
}

#[test]
fn cells_below_a_lower_hub_are_named() {
    let step = |is_current, cells: &[(&str, i64)], cut_off: &[&str]| {
        let items = [report_below("mid", is_current, cells)];
        step(true, &bound(&["mid"], &items), cut_off)
    };
    for (is_current, cells, cut_off, expected) in [
        (true, &[("a1", 0), ("a2", 0)][..], &[][..], ("delete", "")),
        (true, &[("a1", 0), ("a2", 2)], &[], ("wait", "mid.a2 (2)")),
        (false, &[("a1", 0), ("a2", 2)], &[], ("wait", "mid.a2 (2)")),
        (
            false,
            &[("a1", 0), ("a2", 2)],
            &["mid.a2"],
            ("delete", "mid.a2 (2, cannot be reached)"),
        ),
        (
            false,
            &[("a1", 0), ("a2", 2)],
            &["mid.a1"],
            ("wait", "mid.a2 (2)"),
        ),
        // One of them has not acted, and it is not known which one.
        (
            false,
            &[("a1", 0), ("a2", 0)],
            &[],
            ("wait", "mid (number unknown)"),
        ),
        (
            false,
            &[("a1", 0), ("a2", 0)],
            &["mid.a1"],
            ("delete", "mid.a1 (number unknown, cannot be reached)"),
        ),
        (false, &[], &[], ("wait", "mid (number unknown)")),
    ] {
        let (step, message) = step(is_current, cells, cut_off);
        assert_eq!(
            (step, message.as_str()),
            expected,
            "{is_current} {cells:?} {cut_off:?}"
        );
    }
    let mut only = report_below("mid", true, &[]);
    only["status"]["reportingCell"] = json!("a1");
    only["status"]["replicas"] = json!(3);
    let (step, message) = self::step(true, &bound(&["mid"], &[only]), &[]);
    assert_eq!((step, message.as_str()), ("wait", "mid.a1 (3)"));
}

/// The generation of the copy must change, so that the reports of the cells say whether they have acted on it.
#[test]
fn the_cells_are_asked_by_a_spec_without_instances() {
    let mut deployment = deleted(0);
    deployment.spec.replicas = Some(2);
    deployment.spec.scale_settings.max_replicas = Some(5);
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 2)]);
    let plan = planned(
        &deployment,
        &hub_of(&deployment, false),
        &binding,
        &[],
        None,
    );
    let asked = plan.apply_copy.unwrap();
    assert!(asked.needs_confirmation);
    assert_eq!(asked.spec.replicas, Some(0));
    assert_eq!(asked.spec.scale_settings.min_replicas, 0);
    assert_eq!(asked.spec.scale_settings.max_replicas, None);
    assert_eq!(asked.spec.template, deployment.spec.template);
    let ending = asked.annotations.get(annotations::ENDING);
    assert_eq!(ending.map(String::as_str), Some("true"));
    assert_eq!(
        asked.labels.get(labels::CITY_CODE).map(String::as_str),
        Some("DFW")
    );
}

#[test]
fn the_same_cells_are_written_once() {
    let mut deployment = deleted(10);
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 2)]);
    let plan = |deployment: &WorkloadDeployment| {
        planned(deployment, &hub_of(deployment, true), &binding, &[], None)
    };
    deployment.status = plan(&deployment).status;
    assert!(deployment.status.is_some());
    assert_eq!(plan(&deployment).status, None);
}

/// A project that was restored has a WorkloadDeployment again that was being deleted.
#[test]
fn a_copy_does_not_end_while_the_project_has_the_deployment() {
    let mut deployment = recorded("DFW");
    deployment.spec.scale_settings.min_replicas = 0;
    let hub = hub_of(&deployment, true);
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 0)]);
    let plan = planned(&deployment, &hub, &binding, &[], None);
    let desired = plan.apply_copy.unwrap();
    assert!(!desired.annotations.contains_key(annotations::ENDING));
    // The project's own annotation means nothing.
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.insert(annotations::ENDING.into(), "true".into());
    let plan = planned(&deployment, &hub, &binding, &[], None);
    assert!(
        !plan
            .apply_copy
            .unwrap()
            .annotations
            .contains_key(annotations::ENDING)
    );
}

/// A cell cannot write the condition of the federator.
#[test]
fn the_condition_is_never_that_of_a_cell() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.status = Some(WorkloadDeploymentStatus {
        conditions: vec![crate::fixtures::condition(INSTANCES_ENDED, false, None)],
        replicas: 1,
        ..WorkloadDeploymentStatus::default()
    });
    let status = plan_for(&deployment, &hub).status.unwrap();
    assert_eq!((status.replicas, status.conditions), (1, vec![]));
}
