//! Tests of the information about cells in the status of the project's WorkloadDeployment.

use api::WorkloadDeploymentStatus;
use api::condition::{self, Condition};
use api::karmada::ResourceBinding;
use serde_json::Value;

use super::*;

pub(super) const CUT: &str = "2026-11-21T09:30:00Z";
const SCHEDULED: &str = "2026-11-21T09:00:00Z";

/// Returns the report of a cell. All replicas are ready if the cell is available. Otherwise none is ready.
pub(super) fn report(cell: &str, available: bool) -> Value {
    let status = if available { "True" } else { "False" };
    json!({"clusterName": cell, "applied": true, "status": {
        "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 2,
        "conditions": [{
            "type": "Available", "status": status, "reason": "Because", "message": "m", "lastTransitionTime": SCHEDULED,
        }],
    }})
}

/// Returns a binding of generation 2 to these cells, with a scheduling result, an observed generation and reports.
fn binding(
    cells: &[&str],
    scheduled: (&str, &str),
    observed: Option<i64>,
    items: &[Value],
) -> ResourceBinding {
    let cells: Vec<_> = cells.iter().map(|name| json!({"name": name})).collect();
    let (status, reason) = scheduled;
    object(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-us-dfw-workloaddeployment", "namespace": HUB_NAMESPACE, "generation": 2},
        "spec": {"clusters": cells},
        "status": {
            "aggregatedStatus": items,
            "schedulerObservedGeneration": observed,
            "conditions": [{
                "type": "Scheduled", "status": status, "reason": reason, "message": "as scheduled", "lastTransitionTime": SCHEDULED,
            }],
        },
    }))
}

pub(super) fn bound(cells: &[&str], items: &[Value]) -> ResourceBinding {
    binding(cells, ("True", "Success"), Some(2), items)
}

/// Returns a hub. The status of its copy has this number of replicas and this `Available`.
pub(super) fn reporting(
    deployment: &WorkloadDeployment,
    replicas: i32,
    available: bool,
) -> HubFixture {
    let mut hub = complete(deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).status = Some(WorkloadDeploymentStatus {
        conditions: vec![crate::fixtures::condition("Available", available, Some(7))],
        observed_generation: Some(7),
        replicas,
        ready_replicas: replicas,
        ..WorkloadDeploymentStatus::default()
    });
    hub
}

/// Returns the status that the plan writes with this binding while these cells are unreachable.
fn shown(
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
    binding: &ResourceBinding,
    cut_off: &[&str],
) -> Option<WorkloadDeploymentStatus> {
    let since = Some(CUT.parse().unwrap());
    shown_since(deployment, hub, binding, cut_off, since)
}

fn shown_since(
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
    binding: &ResourceBinding,
    cut_off: &[&str],
    since: Option<Timestamp>,
) -> Option<WorkloadDeploymentStatus> {
    planned(deployment, hub, binding, cut_off, since).status
}

pub(super) fn planned(
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
    binding: &ResourceBinding,
    cut_off: &[&str],
    since: Option<Timestamp>,
) -> Plan {
    planned_with(deployment, hub, binding, (cut_off, since), &|_| None)
}

/// As [`planned`], with the stamps that the rules of the cells have.
pub(super) fn planned_with(
    deployment: &WorkloadDeployment,
    hub: &HubFixture,
    binding: &ResourceBinding,
    (cut_off, since): (&[&str], Option<Timestamp>),
    rules_stamp: &dyn Fn(&str) -> Option<i64>,
) -> Plan {
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let state = |cell: &str| match cut_off.contains(&cell) {
        true => CellState::Unreachable {
            since,
            message: "cut off".to_owned(),
        },
        false => CellState::Reachable,
    };
    let cells = CopyCells {
        state: &state,
        rules_stamp,
        ..reachable_cells(Some(binding))
    };
    plan_knowing(cells, &own, Some(&own), deployment, hub)
}

/// Returns the reason of a condition, and its status and time as one text.
pub(super) fn says<'s>(
    status: &'s WorkloadDeploymentStatus,
    type_: &str,
) -> Option<(&'s str, String)> {
    let Condition {
        reason,
        status,
        last_transition_time,
        ..
    } = condition::find(&status.conditions, type_)?;
    Some((reason, format!("{status:?} {}", last_transition_time.0)))
}

#[test]
fn the_status_of_the_hub_stands_while_all_cells_are_reachable() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let verbatim = plan_for(&deployment, &hub).status.unwrap();
    // The aggregation of these reports would give another status. So the status must come from the hub.
    let bound = bound(&["dfw1"], &[report("dfw1", false)]);
    assert_eq!(shown(&deployment, &hub, &bound, &["ord1"]), Some(verbatim));
}

#[test]
fn an_unreachable_cell_keeps_its_last_counters() {
    let mut deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let bound = bound(&["dfw1"], &[report("dfw1", true)]);
    let status = shown(&deployment, &hub, &bound, &["dfw1"]).unwrap();
    let expected = |status: &str| Some(("CellUnreachable", format!("{status} {CUT}")));
    assert_eq!(says(&status, "Available"), expected("Unknown"));
    assert_eq!(says(&status, "CellsReporting"), expected("False"));
    assert_eq!((status.replicas, status.ready_replicas), (2, 2));
    let message = &condition::find(&status.conditions, "CellsReporting")
        .unwrap()
        .message;
    assert_eq!(*message, format!("dfw1: unreachable since {CUT}: cut off"));
    // The plan writes the status once. After the recovery of the cell, the plan writes the status of the hub again.
    deployment.status = Some(status);
    assert_eq!(shown(&deployment, &hub, &bound, &["dfw1"]), None);
    let healed = shown(&deployment, &hub, &bound, &[]).unwrap();
    assert_eq!(says(&healed, "CellsReporting"), None);
    assert!(condition::is_true(&healed.conditions, "Available"));
}

#[test]
fn available_follows_the_reachable_cells() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 4, true);
    let bound = bound(
        &["dfw1", "dfw2"],
        &[report("dfw1", true), report("dfw2", false)],
    );
    let available = |cut_off: &[&str]| {
        let status = shown(&deployment, &hub, &bound, cut_off).unwrap();
        assert_eq!((status.replicas, status.cells.len()), (4, 0));
        condition::find(&status.conditions, "Available")
            .unwrap()
            .status
    };
    assert_eq!(available(&["dfw1"]), condition::ConditionStatus::False);
    assert_eq!(available(&["dfw2"]), condition::ConditionStatus::True);
    assert_eq!(
        available(&["dfw1", "dfw2"]),
        condition::ConditionStatus::Unknown
    );
}

#[test]
fn a_cell_counts_until_the_object_is_gone_there() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 4, true);
    let items = [report("dfw1", true), report("dfw2", true)];
    let status = shown(&deployment, &hub, &bound(&["dfw2"], &items), &["dfw1"]).unwrap();
    assert_eq!(
        says(&status, "CellsReporting").unwrap().0,
        "CellUnreachable"
    );
}

#[test]
fn a_cell_without_a_report_counts_as_not_applied() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let bound = bound(&["dfw1", "dfw2"], &[report("dfw1", true)]);
    let status = shown(&deployment, &hub, &bound, &[]).unwrap();
    assert_eq!(says(&status, "CellsReporting").unwrap().0, "CellNotApplied");
    assert!(condition::is_true(&status.conditions, "Available"));
    // A new copy has not reached its cells yet.
    let new = complete(&deployment);
    assert_eq!(shown(&deployment, &new, &bound, &[]), None);
    assert!(shown(&deployment, &new, &bound, &["dfw2"]).is_some());
}

#[test]
fn a_deleted_cell_is_unreachable_since_the_status_shows_it() {
    let mut deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let bound = bound(&["dfw1"], &[report("dfw1", true)]);
    let status = shown_since(&deployment, &hub, &bound, &["dfw1"], None).unwrap();
    let (_, since) = says(&status, "CellsReporting").unwrap();
    assert_eq!(since, "False 2026-11-21T10:00:00Z");
    let earlier = |mut condition: Condition| {
        condition.last_transition_time.0 = CUT.parse().unwrap();
        condition
    };
    let conditions = status.conditions.clone().into_iter().map(earlier).collect();
    deployment.status = Some(WorkloadDeploymentStatus {
        conditions,
        ..status
    });
    let again = shown_since(&deployment, &hub, &bound, &["dfw1"], None).unwrap();
    let reporting = condition::find(&again.conditions, "CellsReporting").unwrap();
    assert_eq!(
        reporting.message,
        format!("dfw1: unreachable since {CUT}: cut off")
    );
}

#[test]
fn a_missing_cell_is_reported_only_if_the_scheduler_reports_it() {
    let deployment = recorded("DFW");
    let hub = complete(&deployment);
    let no_fit = ("False", "NoClusterFit");
    let success = ("True", "Success");
    for (cells, scheduled, observed, proved) in [
        // The scheduler records the observed generation only after successful scheduling.
        (&[][..], no_fit, None, true),
        (&[], no_fit, Some(1), true),
        (&["dfw1"], no_fit, None, false),
        (&[], success, Some(2), true),
        (&[], success, Some(1), false),
        (&[], success, None, false),
        (&[], ("False", "SchedulerError"), Some(2), false),
        (&[], ("False", "Unschedulable"), Some(2), false),
        (&[], ("Unknown", "NoClusterFit"), Some(2), false),
    ] {
        let case = format!("{cells:?} {scheduled:?} {observed:?}");
        let items = cells.iter().map(|cell| json!({"clusterName": cell}));
        let items: Vec<_> = items.collect();
        let bound = binding(cells, scheduled, observed, &items);
        let status = shown(&deployment, &hub, &bound, &[]);
        assert_eq!(status.is_some(), proved, "{case}");
        let Some(status) = status else { continue };
        let expected = |status: &str| Some(("NoMatchingCell", format!("{status} {SCHEDULED}")));
        assert_eq!(says(&status, "Available"), expected("Unknown"), "{case}");
        assert_eq!(says(&status, "CellsReporting"), expected("False"), "{case}");
    }
    let mut unscheduled = bound(&[], &[]);
    unscheduled.status = None;
    assert_eq!(shown(&deployment, &hub, &unscheduled, &[]), None);
}

/// Karmada counts a request as successful even if the request timed out.
#[test]
fn objects_missing_in_reachable_cells_are_stale() {
    let deployment = recorded("DFW");
    let hub = complete(&deployment);
    let says =
        |cell: &str, status: Value| json!({"clusterName": cell, "applied": true, "status": status});
    let generation = |generation: i64| json!({"resourceTemplateGeneration": generation});
    let staleness_of = |hub: &HubFixture, items: &[Value]| {
        let mut bound = bound(&["dfw1", "dfw2", "ord1"], items);
        for target in &mut bound.spec.clusters {
            target.replicas = Some(2);
        }
        let staleness = planned(&deployment, hub, &bound, &["ord1"], None).staleness;
        let cells = Vec::from_iter(staleness.cells).join(" ");
        (cells, staleness.namespace, staleness.copy)
    };
    // The other cells have the copy.
    let staleness = |hub: &HubFixture, items: &[Value]| {
        let others = ["dfw1", "dfw2", "ord1"].into_iter();
        let others = others.filter(|cell| items.iter().all(|item| item["clusterName"] != *cell));
        let others = others.map(|cell| says(cell, generation(7)));
        let items: Vec<_> = items.iter().cloned().chain(others).collect();
        staleness_of(hub, &items)
    };
    let unseen = |cell: &str| json!({"clusterName": cell, "applied": true, "health": "Unknown"});
    let failed = |cell: &str, why: &str| {
        let message = format!("Failed to apply all manifests (0/1): {why}");
        json!({"clusterName": cell, "applied": false, "appliedMessage": message})
    };
    let namespace = hub.copy.as_ref().and_then(|copy| copy.namespace());
    let missing = format!("namespaces \"{}\" not found", namespace.unwrap());
    for (items, cells, namespace, copy) in [
        (vec![], "", false, false),
        (vec![says("dfw1", generation(7))], "", false, false),
        (vec![says("dfw1", generation(6))], "dfw1", false, true),
        // The object has no status yet, or the Lua customization of the Go manager reports no generation.
        (vec![says("dfw1", json!({}))], "", false, false),
        (vec![report("dfw1", true)], "", false, false),
        (
            vec![says("dfw1", json!({"assignedReplicas": 1}))],
            "dfw1",
            false,
            true,
        ),
        // The autoscaler of a cell owns the number of replicas, unless the template sets this number.
        (
            vec![says(
                "dfw1",
                json!({"assignedReplicas": 5, "assignedMinReplicas": 2}),
            )],
            "",
            false,
            false,
        ),
        (vec![unseen("dfw1")], "dfw1", true, true),
        (vec![failed("dfw1", &missing)], "dfw1", true, false),
        // Karmada retries by itself. Another apply of the namespace would not help.
        (vec![failed("dfw1", "admission denied")], "", false, false),
        (
            vec![failed("dfw2", &missing), says("dfw1", generation(6))],
            "dfw1 dfw2",
            true,
            true,
        ),
        // The report is about an earlier copy of the same name. This copy was deleted.
        (vec![says("dfw1", generation(8))], "dfw1", false, true),
        // The three cases: the cell is unreachable, the cell is not a target, the report of a cell cannot be decoded.
        (vec![unseen("ord1")], "", false, false),
        (vec![unseen("ams1")], "", false, false),
        (
            vec![unseen("dfw1"), says("dfw2", json!("x"))],
            "dfw1",
            true,
            true,
        ),
    ] {
        let expected = (cells.to_owned(), namespace, copy);
        assert_eq!(staleness(&hub, &items), expected, "{items:?}");
    }
    // Karmada has not written to the cell, or has not tried to apply the copy there: the cell was away.
    let others = [says("dfw1", generation(7)), says("ord1", generation(7))];
    let lacking = ("dfw2".to_owned(), false, true);
    assert_eq!(staleness_of(&hub, &others), lacking);
    let untried = json!({"clusterName": "dfw2", "applied": false, "health": "Unknown"});
    assert_eq!(staleness(&hub, &[untried]), lacking);
    let items = [
        says("dfw1", generation(7)),
        failed("dfw2", "admission denied"),
        says("ord1", generation(7)),
    ];
    let bound = bound(&["dfw1", "dfw2", "ord1"], &items);
    let complete = planned(&deployment, &hub, &bound, &["ord1"], None)
        .staleness
        .complete;
    assert_eq!(Vec::from_iter(complete), ["dfw1"]);

    // An apply of the copy in the same reconciliation already causes a write by Karmada.
    let mut changed = self::complete(&deployment);
    let copy = Arc::make_mut(changed.copy.as_mut().unwrap());
    copy.spec.scale_settings.min_replicas += 1;
    let nothing = (String::new(), false, false);
    assert_eq!(staleness(&changed, &[unseen("dfw1")]), nothing);
}

/// The copy was created again, so the project has the last known counters.
#[test]
fn a_recreated_copy_without_a_report_keeps_the_counters() {
    let mut deployment = recorded("DFW");
    deployment.status = Some(WorkloadDeploymentStatus {
        replicas: 2,
        current_replicas: 2,
        desired_replicas: 2,
        ready_replicas: 2,
        ..WorkloadDeploymentStatus::default()
    });
    let mut hub = complete(&deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).status = None;
    let unscheduled = binding(&[], ("False", "NoClusterFit"), Some(1), &[]);
    for (binding, reason) in [
        (bound(&["dfw1"], &[]), "CellUnreachable"),
        (unscheduled, "NoMatchingCell"),
    ] {
        let status = shown(&deployment, &hub, &binding, &["dfw1"]).unwrap();
        let available = condition::find(&status.conditions, "Available").unwrap();
        assert_eq!(available.reason, reason);
        let counters = [
            status.replicas,
            status.current_replicas,
            status.desired_replicas,
            status.ready_replicas,
        ];
        assert_eq!(counters, [2; 4], "{reason}");
    }
}
