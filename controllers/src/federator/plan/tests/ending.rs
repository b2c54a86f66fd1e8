//! Tests of the deletion of a WorkloadDeployment that has Instances in cells.

use api::condition;
use api::karmada::ResourceBinding;
use api::reasons::workload_deployment::{INSTANCES_MAY_REMAIN, INSTANCES_REMAIN, TERMINATING};
use api::workload_deployment::{AVAILABLE, INSTANCES_ENDED};
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

/// Returns the report of a lower hub about the cells below it: the name, the number of Instances, and whether the cell has
/// acted on the object of the lower hub.
fn report_below(lower_hub: &str, cells: &[(&str, i64, bool)]) -> Value {
    let mut report = report(
        lower_hub,
        GENERATION,
        cells.iter().map(|(_, it, _)| it).sum(),
    );
    let is_current = cells.iter().all(|(_, _, has_acted)| *has_acted);
    let cells = cells.iter().map(|(name, instances, has_acted)| {
        let generation = if *has_acted { 3 } else { 2 };
        json!({"name": name, "replicas": instances, "resourceTemplateGeneration": generation})
    });
    report["status"]["cells"] = cells.collect();
    if !is_current {
        report["status"]["observedGeneration"] = json!(2);
    }
    report
}

fn before(seconds: i64) -> Timestamp {
    now() - jiff::SignedDuration::from_secs(seconds)
}

/// Returns a WorkloadDeployment that was deleted so many seconds ago.
fn deleted(seconds: i64) -> WorkloadDeployment {
    let mut deployment = terminating(recorded("DFW"));
    deployment.metadata.deletion_timestamp.as_mut().unwrap().0 = before(seconds);
    deployment
}

/// Returns a hub with the copy of a WorkloadDeployment. `asked` is how many seconds ago the cells were asked to end its
/// Instances.
fn hub_of(deployment: &WorkloadDeployment, asked: Option<i64>) -> HubFixture {
    let mut live = deployment.clone();
    live.metadata.deletion_timestamp = None;
    let mut hub = complete(&live);
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.metadata.generation = Some(GENERATION);
    copy.status = None;
    if let Some(asked) = asked {
        copy.spec = copy.spec.without_instances();
        let annotations = copy.metadata.annotations.get_or_insert_default();
        annotations.insert(annotations::ENDING.into(), before(asked).to_string());
    }
    hub
}

/// Returns the step of a deletion whose cells were asked 10 s ago, and the cells in the message.
fn step(binding: &ResourceBinding, cut_off: &[&str]) -> (&'static str, String) {
    step_after(10, Some(10), binding, cut_off)
}

fn step_after(
    deleted: i64,
    asked: Option<i64>,
    binding: &ResourceBinding,
    cut_off: &[&str],
) -> (&'static str, String) {
    let deployment = self::deleted(deleted);
    let plan = planned(
        &deployment,
        &hub_of(&deployment, asked),
        binding,
        cut_off,
        None,
    );
    assert!(!plan.release);
    let step = match (&plan.apply_copy, plan.delete_copy, plan.look_again) {
        (Some(_), false, None) => "ask",
        (Some(_), true, None) => "ask, or delete",
        (None, false, Some(_)) => "wait",
        (None, true, None) => "delete",
        _ => panic!("{plan:?}"),
    };
    let shown = plan.status.unwrap_or_default();
    let ended = condition::find(&shown.conditions, INSTANCES_ENDED);
    let Some(ended) = ended else {
        assert_eq!((shown.conditions, plan.may_remain), (vec![], None));
        return (step, String::new());
    };
    let available = condition::find(&shown.conditions, AVAILABLE).unwrap();
    assert!(available.is_false() && available.reason == TERMINATING);
    assert_eq!(plan.may_remain.is_some(), step == "delete");
    let (reason, cells) = match step {
        "delete" => (
            INSTANCES_MAY_REMAIN,
            ended.message.strip_prefix("instances may still run in "),
        ),
        _ => (INSTANCES_REMAIN, Some(&*ended.message)),
    };
    assert!(ended.is_false() && ended.reason == reason);
    let cells = cells.unwrap().split("; the deletion").next().unwrap();
    let cells = cells.trim_end_matches(" may still have instances");
    (step, cells.to_owned())
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
            ("wait", "dfw1 (has not answered)"),
        ),
        (
            &two[..1],
            vec![report("dfw1", old, 2)],
            ("wait", "dfw1 (2)"),
        ),
        (
            &two[..1],
            vec![unobserved],
            ("wait", "dfw1 (has not answered)"),
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
        let (step, message) = step(&bound(cells, &items), &[]);
        assert_eq!((step, message.as_str()), expected, "{items:?}");
    }
}

/// I-34: no cell blocks a deletion for ever.
#[test]
fn cells_that_cannot_be_reached_and_those_that_take_too_long_are_not_waited_for() {
    let running = [report("dfw1", GENERATION, 2), report("dfw2", GENERATION, 1)];
    let binding = bound(&["dfw1", "dfw2"], &running);
    let both = "dfw1 (2), dfw2 (1)";
    let cut = "dfw1 (2, cannot be reached), dfw2 (1, cannot be reached)";
    let (one_cut, hour) = ("dfw1 (2, cannot be reached), dfw2 (1)", 3600);
    for (deleted, asked, cut_off, expected) in [
        (0, None, &[][..], ("ask", "")),
        (179, None, &[], ("ask", "")),
        // The management process was away. If the hub refuses the change, the copy is deleted.
        (180, None, &[], ("ask, or delete", "")),
        (hour, None, &[], ("ask, or delete", "")),
        // Most deletions are over by then.
        (hour, Some(1), &[], ("wait", "")),
        (hour, Some(2), &[], ("wait", both)),
        (hour, Some(179), &[], ("wait", both)),
        (hour, Some(180), &[], ("delete", both)),
        (10, Some(10), &["dfw1"], ("wait", one_cut)),
        (10, Some(180), &["dfw1"], ("delete", one_cut)),
        (0, Some(0), &["dfw1", "dfw2"], ("delete", cut)),
        (0, None, &["dfw1", "dfw2"], ("delete", cut)),
    ] {
        let (step, message) = step_after(deleted, asked, &binding, cut_off);
        assert_eq!(
            (step, message.as_str()),
            expected,
            "{deleted} {asked:?} {cut_off:?}"
        );
    }
    // The cells are not known.
    let deployment = deleted(0);
    let plan = plan_for(&deployment, &hub_of(&deployment, None));
    assert!(plan.delete_copy && plan.apply_copy.is_none() && plan.status.is_none());
}

/// A cell can report no Instances although the copy wants some: it may make them a moment later.
#[test]
fn a_report_counts_only_after_the_cells_were_asked() {
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 0)]);
    assert_eq!(step_after(10, None, &binding, &[]).0, "ask");
    assert_eq!(step_after(10, Some(0), &binding, &[]).0, "delete");
}

#[test]
fn cells_below_a_lower_hub_are_named() {
    for (cells, cut_off, expected) in [
        (
            &[("a1", 0, true), ("a2", 0, true)][..],
            &[][..],
            ("delete", ""),
        ),
        (
            &[("a1", 0, true), ("a2", 2, true)],
            &[],
            ("wait", "mid.a2 (2)"),
        ),
        (
            &[("a1", 0, true), ("a2", 2, false)],
            &[],
            ("wait", "mid.a2 (2)"),
        ),
        (
            &[("a1", 0, true), ("a2", 2, false)],
            &["mid.a2"],
            ("delete", "mid.a2 (2, cannot be reached)"),
        ),
        (
            &[("a1", 0, true), ("a2", 2, false)],
            &["mid.a1"],
            ("wait", "mid.a2 (2)"),
        ),
        (
            &[("a1", 0, true), ("a2", 0, false)],
            &[],
            ("wait", "mid.a2 (has not answered)"),
        ),
        (
            &[("a1", 0, true), ("a2", 0, false)],
            &["mid.a2"],
            ("delete", "mid.a2 (has not answered, cannot be reached)"),
        ),
        (
            &[("a1", 2, false), ("a2", 0, false)],
            &["mid.a1"],
            (
                "wait",
                "mid.a1 (2, cannot be reached), mid.a2 (has not answered)",
            ),
        ),
    ] {
        let (step, message) = step(&bound(&["mid"], &[report_below("mid", cells)]), cut_off);
        assert_eq!((step, message.as_str()), expected, "{cells:?} {cut_off:?}");
    }
    // A cell below that has never reported has no entry.
    let mut unnamed = report_below("mid", &[("a1", 0, true)]);
    unnamed["status"]["observedGeneration"] = json!(2);
    let mut only = report_below("mid", &[]);
    only["status"]["reportingCell"] = json!("a1");
    only["status"]["replicas"] = json!(3);
    for (report, cells) in [(unnamed, "mid (has not answered)"), (only, "mid.a1 (3)")] {
        let (step, message) = step(&bound(&["mid"], &[report]), &[]);
        assert_eq!((step, message.as_str()), ("wait", cells));
    }
}

/// The generation of the copy must change, so that the reports of the cells say whether they have acted on it.
#[test]
fn the_cells_are_asked_by_a_spec_without_instances() {
    let mut deployment = deleted(0);
    deployment.spec.replicas = Some(2);
    deployment.spec.scale_settings.max_replicas = Some(5);
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 2)]);
    let plan = planned(&deployment, &hub_of(&deployment, None), &binding, &[], None);
    let asked = plan.apply_copy.unwrap();
    assert!(asked.needs_confirmation);
    assert_eq!(asked.spec.replicas, Some(0));
    assert_eq!(asked.spec.scale_settings.min_replicas, 0);
    assert_eq!(asked.spec.scale_settings.max_replicas, None);
    assert_eq!(asked.spec.template, deployment.spec.template);
    let ending = asked.annotations.get(annotations::ENDING);
    assert_eq!(ending, Some(&now().to_string()));
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
        planned(
            deployment,
            &hub_of(deployment, Some(10)),
            &binding,
            &[],
            None,
        )
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
    let hub = hub_of(&deployment, Some(10));
    let binding = bound(&["dfw1"], &[report("dfw1", GENERATION, 0)]);
    let plan = planned(&deployment, &hub, &binding, &[], None);
    let desired = plan.apply_copy.unwrap();
    assert!(!desired.annotations.contains_key(annotations::ENDING));
    // The project's own annotation means nothing.
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.insert(annotations::ENDING.into(), now().to_string());
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
