//! Tests of the status that the federator writes to the project.

use api::WorkloadDeploymentStatus;
use api::condition::{self, ConditionStatus};
use api::workload_deployment::AVAILABLE;
use serde_json::Value;

use super::*;
use crate::federator::plan::status::INVALID_CITY_CODE;
use crate::fixtures::condition;
use crate::runtime::write::merge_patch;

#[test]
fn a_recreated_copy_has_an_unknown_status() {
    let mut deployment = recorded("DFW");
    deployment.status = Some(WorkloadDeploymentStatus {
        conditions: vec![
            condition("Available", true, Some(1)),
            condition("ReplicasReady", true, Some(1)),
            condition("CellsReporting", false, None),
            condition("example.com/Audited", true, Some(4)),
        ],
        observed_generation: Some(1),
        ready_replicas: 2,
        ..WorkloadDeploymentStatus::default()
    });
    let mut hub = complete(&deployment);
    Arc::make_mut(hub.copy.as_mut().unwrap()).status = None;
    deployment.status = plan_for(&deployment, &hub).status;
    let status = deployment.status.as_ref().unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(available.status, ConditionStatus::Unknown);
    assert_eq!(status.observed_generation, None);
    assert_eq!(status.ready_replicas, 2);
    let types: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Available", "example.com/Audited"]);
    assert_eq!(plan_for(&deployment, &hub).status, None);
}

#[test]
fn the_status_comes_back_with_translated_generations_and_without_the_cells() {
    let deployment = recorded("DFW");
    let mut hub = complete(&deployment);
    let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
    copy.status = Some(object(json!({
        "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 2, "observedGeneration": 7,
        "updatedReplicas": 1, "selector": "compute.datumapis.com/workload-deployment-uid=of-the-cell",
        "cells": [{"name": "a", "replicas": 2, "currentReplicas": 2, "desiredReplicas": 2, "readyReplicas": 2}],
        "conditions": [condition("Available", true, Some(7)), condition("CellsReporting", false, None)],
    })));
    let status = plan_for(&deployment, &hub).status.unwrap();
    assert_eq!(
        (
            status.observed_generation,
            status.cells.len(),
            status.replicas
        ),
        (Some(5), 0, 2)
    );
    let observed: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.observed_generation)
        .collect();
    assert_eq!(observed, [Some(5), None]);

    assert_eq!(status.updated_replicas, Some(1));
    // The Instances of the project carry the UID of the project's WorkloadDeployment.
    let uid = deployment.metadata.uid.as_deref().unwrap();
    let expected = format!("compute.datumapis.com/workload-deployment-uid={uid}");
    assert_eq!(status.selector, Some(expected));

    // The plan writes the status only once.
    let mut settled = deployment.clone();
    settled.status = Some(status);
    assert_eq!(plan_for(&settled, &hub), Plan::default());

    // The hub does not have the newer spec yet. So the status keeps the former generation.
    settled.meta_mut().generation = Some(6);
    settled.spec.scale_settings.min_replicas = 9;
    let plan = plan_for(&settled, &hub);
    assert!(plan.apply_copy.is_some());
    assert_eq!(plan.status, None);
}

fn with_conditions(conditions: &[(&str, bool, Option<i64>)]) -> WorkloadDeploymentStatus {
    let conditions = conditions.iter();
    WorkloadDeploymentStatus {
        conditions: conditions
            .map(|(type_, holds, observed)| condition(type_, *holds, *observed))
            .collect(),
        ..WorkloadDeploymentStatus::default()
    }
}

#[test]
fn conditions_that_others_own_in_the_project_stay() {
    type ExpectedConditions = &'static [(&'static str, bool, Option<i64>)];
    let cases: [(
        &str,
        ExpectedConditions,
        ExpectedConditions,
        ExpectedConditions,
    ); 6] = [
        (
            "of a controller of the project",
            &[("Available", true, Some(7))],
            &[
                ("example.com/Audited", true, Some(4)),
                ("Available", false, None),
            ],
            &[
                ("Available", true, Some(5)),
                ("example.com/Audited", true, Some(4)),
            ],
        ),
        (
            "what the hub has no more",
            &[("Available", true, Some(7))],
            &[
                ("Available", true, Some(5)),
                ("CellsReporting", false, None),
                ("ReplicasReady", true, None),
            ],
            &[("Available", true, Some(5))],
        ),
        (
            "what the hub has never had",
            &[],
            &[("Available", true, Some(5))],
            &[],
        ),
        (
            "a type that the hub has too is the hub's",
            &[("Suspended", true, None)],
            &[("Suspended", false, Some(3))],
            &[("Suspended", true, None)],
        ),
        (
            "but for referenced data, which is the project's",
            &[
                ("ReferencedDataReady", false, None),
                ("Available", true, Some(7)),
            ],
            &[("ReferencedDataReady", true, Some(5))],
            &[
                ("Available", true, Some(5)),
                ("ReferencedDataReady", true, Some(5)),
            ],
        ),
        (
            "also where the project says nothing of it",
            &[("ReferencedDataReady", false, None)],
            &[("Available", true, Some(5))],
            &[],
        ),
    ];
    for (what, hub, former, wanted) in cases {
        let mut deployment = recorded("DFW");
        deployment.status = Some(with_conditions(former));
        let mut side = complete(&deployment);
        Arc::make_mut(side.copy.as_mut().unwrap()).status = Some(with_conditions(hub));
        let status = plan_for(&deployment, &side).status.expect(what);
        assert_eq!(
            status.conditions,
            with_conditions(wanted).conditions,
            "{what}"
        );
        // The plan does not write a settled status.
        deployment.status = Some(status);
        assert_eq!(plan_for(&deployment, &side), Plan::default(), "{what}");
    }
}

#[test]
fn a_patch_of_the_status_names_what_goes() {
    let of = |status: Value| object::<WorkloadDeploymentStatus>(status);
    let counters =
        json!({"replicas": 1, "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1});
    let mut former = counters.clone();
    former["observedGeneration"] = json!(4);
    former["location"] = json!({"name": "l", "namespace": "n"});
    former["conditions"] = json!([condition("Available", true, None)]);
    let mut patch = counters.clone();
    for field in ["observedGeneration", "location", "conditions"] {
        patch[field] = Value::Null;
    }
    assert_eq!(merge_patch(Some(&of(former)), &of(counters.clone())), patch);
    assert_eq!(merge_patch(None, &of(counters.clone())), counters);
}

#[test]
fn an_invalid_city_code_is_reported_and_not_copied() {
    let mut deployment = deployment("default", "web-us-ny", "New York", 2);
    let plan = plan_for(&deployment, &NOTHING);
    assert_eq!(
        (plan.record, &plan.apply_namespace, &plan.apply_copy),
        (false, &None, &None)
    );
    let status = plan.status.unwrap();
    let available = condition::find(&status.conditions, AVAILABLE).unwrap();
    assert_eq!(
        (available.reason.as_str(), available.is_false()),
        (INVALID_CITY_CODE, true)
    );
    deployment.status = Some(status);
    assert_eq!(plan_for(&deployment, &NOTHING), Plan::default());
}

/// I-22a: a status has all counters that the CRD requires, even if a counter is zero.
#[test]
fn a_status_names_every_counter() {
    let deployment = deployment("default", "web-us-ny", "New York", 2);
    let status = plan_for(&deployment, &NOTHING).status.unwrap();
    let patch = merge_patch(None, &status);
    for counter in [
        "replicas",
        "currentReplicas",
        "desiredReplicas",
        "readyReplicas",
    ] {
        assert_eq!(patch[counter], 0, "{counter} in {patch}");
    }
}

/// A problem names its cell, also if there is only one.
#[test]
fn the_message_of_a_problem_names_the_only_cell() {
    let deployment = recorded("DFW");
    let messages = |available: bool, message: &str| {
        let mut hub = complete(&deployment);
        let copy = Arc::make_mut(hub.copy.as_mut().unwrap());
        let mut condition = json!(condition("Available", available, Some(7)));
        condition["message"] = json!(message);
        let reporting = json!({
            "type": "CellsReporting", "status": "False", "reason": "CellNotReported", "message": "r",
            "lastTransitionTime": condition["lastTransitionTime"],
        });
        copy.status = Some(object(json!({
            "replicas": 0, "currentReplicas": 0, "desiredReplicas": 2, "readyReplicas": 0, "observedGeneration": 7,
            "reportingCell": "dfw1", "conditions": [condition, reporting],
        })));
        let status = plan_for(&deployment, &hub).status.unwrap();
        let conditions = status.conditions.into_iter();
        conditions.map(|it| it.message).collect::<Vec<_>>()
    };
    assert_eq!(messages(false, "no quota"), ["dfw1: no quota", "r"]);
    assert_eq!(
        messages(false, "dfw1: unreachable"),
        ["dfw1: unreachable", "r"]
    );
    assert_eq!(
        messages(true, "an instance is ready"),
        ["an instance is ready", "r"]
    );
}
