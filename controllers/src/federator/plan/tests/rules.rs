//! Tests of what the status says about rules and overrides that have not reached a cell.

use api::WorkloadDeploymentStatus;
use api::condition::{self, Condition};

use super::cells::{CUT, bound, planned_with, report, reporting};
use super::*;

/// What is known about cells that have lacked the copy for long.
fn lack(override_failure: Option<&str>) -> KnownLack {
    KnownLack {
        is_late: true,
        override_failure: override_failure.map(str::to_owned),
    }
}

/// A failing override is shown while a cell lacks the copy. The condition stays without further Events.
#[test]
fn a_failing_override_is_shown_while_a_cell_lacks_the_copy() {
    let mut deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let (lacking, complete) = (
        bound(&["dfw1", "dfw2"], &[report("dfw1", true)]),
        bound(&["dfw1"], &[report("dfw1", true)]),
    );
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let status =
        |deployment: &WorkloadDeployment, hub: &HubFixture, binding, known: Option<&str>| {
            let cells = reachable_cells(Some(binding));
            let known = lack(known);
            let plan = plan_told(known, cells, &own, Some(&own), deployment, hub);
            plan.status.or_else(|| deployment.status.clone())
        };
    let shown = |deployment: &WorkloadDeployment, binding, known| {
        let status = status(deployment, &hub, binding, known)?;
        let condition = condition::find(&status.conditions, "RulesApplied")?;
        let at = condition.last_transition_time.0.to_string();
        Some((condition.reason.clone(), condition.message.clone(), at))
    };
    let fails = Some("dfw2: OverridePolicy x fails");
    assert_eq!(shown(&deployment, &lacking, None), None);
    assert_eq!(shown(&deployment, &complete, fails), None);
    let expected = |message: &str, at: &str| {
        Some((
            "OverrideFailed".to_owned(),
            message.to_owned(),
            at.to_owned(),
        ))
    };
    let message = "dfw2: OverridePolicy x fails";
    let now = "2026-11-21T10:00:00Z";
    assert_eq!(shown(&deployment, &lacking, fails), expected(message, now));

    let with = |message: &str| {
        let failure = json!({
            "type": "RulesApplied", "status": "False", "reason": "OverrideFailed", "message": message,
            "lastTransitionTime": CUT,
        });
        let mut status = json!(WorkloadDeploymentStatus {
            replicas: 7,
            ..WorkloadDeploymentStatus::default()
        });
        status["conditions"] = json!([failure]);
        Some(serde_json::from_value(status).unwrap())
    };
    let both = "dfw1: OverridePolicy y fails; dfw2: ClusterOverridePolicy x fails: because";
    deployment.status = with(both);
    let former = expected(both, CUT);
    assert_eq!(shown(&deployment, &lacking, None), former);
    assert_eq!(shown(&deployment, &lacking, fails), expected(message, CUT));
    assert_eq!(shown(&deployment, &complete, None), None);
    // Without a copy, the status stays.
    let mut without = reporting(&deployment, 2, true);
    without.copy = None;
    let kept = status(&deployment, &without, &lacking, fails);
    assert_eq!(kept, deployment.status);
    // Its cell has the copy, and another one lacks it for another reason.
    for message in [
        "dfw1: OverridePolicy y fails",
        "dfw1: OverridePolicy y fails; besides, dfw2: OverridePolicy",
        "dfw1: OverridePolicy y fails: dfw2: other",
    ] {
        deployment.status = with(message);
        assert_eq!(shown(&deployment, &lacking, None), None, "{message}");
    }
}

/// The lower hub has the copy, so the override was applied.
#[test]
fn a_failed_override_is_not_shown_for_what_only_cells_below_lack() {
    let deployment = recorded("DFW");
    let hub = reporting(&deployment, 2, true);
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    for (generation, is_shown) in [(6, true), (7, false)] {
        let mut item = report(LOWER_HUB, true);
        item["status"]["resourceTemplateGeneration"] = json!(generation);
        item["status"]["generation"] = json!(8);
        let entry = |name, acted| json!({"name": name, "resourceTemplateGeneration": acted});
        item["status"]["cells"] = json!([entry("a1", 7), entry("a2", 8)]);
        let binding = bound(&[LOWER_HUB], &[item]);
        let cells = reachable_cells(Some(&binding));
        let known = lack(Some("dfw: OverridePolicy x fails"));
        let plan = plan_told(known, cells, &own, Some(&own), &deployment, &hub);
        assert!(plan.staleness.copy, "{generation}");
        let conditions = plan.status.unwrap().conditions;
        let shown = condition::find(&conditions, "RulesApplied");
        assert_eq!(shown.is_some(), is_shown, "{generation}");
    }
}

/// Both a failing override and rules that a cell cannot read are shown.
#[test]
fn a_failing_override_does_not_hide_other_problems_of_rules() {
    let deployment = recorded("DFW");
    let mut hub = reporting(&deployment, 2, true);
    let invalid = Condition::new(
        "RulesApplied",
        condition::ConditionStatus::False,
        "InvalidRules",
        "dfw1: x",
        now(),
    );
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.status.as_mut().unwrap().conditions.push(invalid);
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let mut deployment = deployment;
    for known in [Some("dfw2: OverridePolicy y fails"), None, None] {
        let binding = bound(&["dfw2"], &[json!({"clusterName": "dfw2"})]);
        let cells = reachable_cells(Some(&binding));
        // Without an Event, the condition stays.
        let known = lack(known);
        let plan = plan_told(known, cells, &own, Some(&own), &deployment, &hub);
        let status = plan.status.or_else(|| deployment.status.clone());
        let shown = condition::find(&status.as_ref().unwrap().conditions, "RulesApplied").cloned();
        let expected = "dfw2: OverridePolicy y fails; besides, dfw1: x";
        assert_eq!(shown.unwrap().message, expected);
        deployment.status = status;
    }
}

/// Karmada counts the write of new rules as successful even if the request timed out.
#[test]
fn a_cell_without_its_current_rules_is_stale() {
    let deployment = recorded("DFW");
    let hub = complete(&deployment);
    let stale = |reported: Option<i64>, wanted: Option<i64>, cut_off: &[&str]| {
        let mut status = json!({"resourceTemplateGeneration": 7});
        if let Some(reported) = reported {
            status["cellRulesStamp"] = reported.into();
        }
        let item = json!({"clusterName": "dfw1", "applied": true, "status": status});
        let bound = bound(&["dfw1"], &[item]);
        let stamp = |cell: &str| wanted.filter(|_| cell == "dfw1");
        let plan = planned_with(&deployment, &hub, &bound, (cut_off, None), &stamp);
        let staleness = plan.staleness;
        assert_eq!(staleness.copy, !staleness.cells.is_empty());
        assert!(!staleness.namespace);
        assert_eq!(staleness.former_rules, staleness.cells);
        Vec::from_iter(staleness.cells)
    };
    for (reported, wanted, is_stale) in [
        (Some(7), Some(7), false),
        (Some(0), Some(0), false),
        // The rules are missing, are former ones, or are left over.
        (Some(0), Some(7), true),
        (Some(6), Some(7), true),
        (Some(7), Some(0), true),
        // An interpreter of an earlier version reports no stamp.
        (None, Some(7), false),
        (None, Some(0), false),
        // An earlier version has written the policy, or the policies cannot be listed.
        (Some(7), None, false),
        (Some(0), None, false),
    ] {
        let cells = stale(reported, wanted, &[]);
        let expected: &[&str] = if is_stale { &["dfw1"] } else { &[] };
        assert_eq!(cells, expected, "{reported:?} {wanted:?}");
        assert!(stale(reported, wanted, &["dfw1"]).is_empty());
    }
}

/// A change of rules takes a moment, which is not shown. Then the condition stays until the cells have their rules.
#[test]
fn cells_that_keep_their_former_rules_are_named() {
    let mut deployment = recorded("DFW");
    let mut hub = reporting(&deployment, 2, true);
    let in_template = |message: &str| {
        let status = condition::ConditionStatus::True;
        Condition::new("RulesApplied", status, "RulesInTemplate", message, now())
    };
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    let conditions = &mut copy.status.as_mut().unwrap().conditions;
    conditions.push(in_template("hash 1"));
    let own = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let shown = |deployment: &WorkloadDeployment, stamps: [i64; 2], is_late: bool| {
        let cells = ["dfw1", "dfw2"];
        let items = [0, 1].map(|at| {
            let mut item = report(cells[at], true);
            item["status"]["cellRulesStamp"] = json!(stamps[at]);
            item
        });
        let binding = bound(&cells, &items);
        let cells = CopyCells {
            binding: Some(&binding),
            state: &|_| CellState::Reachable,
            is_lower_hub: &|cluster| cluster == LOWER_HUB,
            silent: &|_| Vec::new(),
            rules_stamp: &|_| Some(7),
        };
        let known = KnownLack {
            is_late,
            override_failure: None,
        };
        let plan = plan_told(known, cells, &own, Some(&own), deployment, &hub);
        let status = plan.status.or_else(|| deployment.status.clone()).unwrap();
        let condition = condition::find(&status.conditions, "RulesApplied").unwrap();
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        (status, reason, message)
    };
    let of = |(_, reason, message): (_, String, String)| format!("{reason} {message}");
    let applied = "RulesInTemplate hash 1";
    assert_eq!(of(shown(&deployment, [7, 7], true)), applied);
    assert_eq!(of(shown(&deployment, [7, 6], false)), applied);
    let former = "FormerRules dfw1, dfw2: the cell still has its former rules";
    let (status, ..) = shown(&deployment, [0, 6], true);
    assert_eq!(of(shown(&deployment, [0, 6], true)), former);
    deployment.status = Some(status);
    let one = "FormerRules dfw2: the cell still has its former rules";
    assert_eq!(of(shown(&deployment, [7, 6], false)), one, "it stays");
    assert_eq!(of(shown(&deployment, [7, 7], false)), applied);
}
