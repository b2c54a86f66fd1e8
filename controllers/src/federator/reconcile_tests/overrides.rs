//! Tests of overrides of Karmada that fail.

use std::time::Duration;

use api::annotations;
use api::labels::LOWER_HUB;
use api::reasons::workload_deployment::OVERRIDE_FAILED;
use api::workload_deployment::RULES_APPLIED;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;

use super::*;

/// When cells have lacked the copy for long enough.
fn later() -> Timestamp {
    now() + SignedDuration::from_secs(3)
}

/// When Karmada does not write the copy any more.
fn much_later() -> Timestamp {
    now() + SignedDuration::from_mins(2)
}

/// Returns a binding of the copy to a cell that has the copy of this generation.
fn binding(copy: &WorkloadDeployment, generation: Option<i64>) -> Value {
    let report = json!({"replicas": 1, "resourceTemplateGeneration": generation});
    reported(copy, &report)
}

/// Returns an Event of Karmada about the copy.
fn event(copy: &WorkloadDeployment, name: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": HUB_NAMESPACE},
        "involvedObject": {"kind": "WorkloadDeployment", "uid": copy.metadata.uid}, "type": "Warning", "reason": reason, "message": message,
        "lastTimestamp": now().to_string(),
    })
}

/// Starts with a copy on the hub.
async fn start_with_copy() -> (FakePlanes, Federator, WorkloadDeployment) {
    let on_hub_before = vec![hub_namespace(), policy(), cluster(), copy(NAME)];
    let (planes, federator) = start(recorded(NAME), on_hub_before).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    let copy = on_hub(&planes).unwrap();
    (planes, federator, copy)
}

async fn at(clock: fn() -> Timestamp, federator: &Federator) -> Outcome {
    settle().await;
    let context = ReconcileContext::new(clock, None);
    federator
        .reconcile(&context, project_key(NAME))
        .await
        .unwrap()
}

fn failure(planes: &FakePlanes) -> Option<api::Condition> {
    let status = in_project(planes)?.status?;
    condition::find(&status.conditions, RULES_APPLIED).cloned()
}

#[tokio::test(start_paused = true)]
async fn a_failing_override_is_named_until_the_cell_has_the_copy() {
    let (planes, federator, copy) = start_with_copy().await;
    let generation = copy.metadata.generation;
    planes.hub.put(binding(&copy, generation.map(|it| it - 1)));
    let message = "Apply override policy(ns-1/broken) for cluster(dfw1) failed.";
    planes
        .hub
        .put(event(&copy, "a", "ApplyOverridePolicyFailed", message));
    planes
        .hub
        .put(event(&copy, "b", "SyncWorkFailed", "doc is missing path"));

    let wait = Outcome::Again(Duration::from_secs(2));
    assert_eq!(at(now, &federator).await, wait);
    assert_eq!(at(later, &federator).await, Outcome::Again(Duration::ZERO));
    assert_eq!(failure(&planes), None);
    at(later, &federator).await;
    let shown = failure(&planes).unwrap();
    assert_eq!(shown.reason, OVERRIDE_FAILED);
    let expected = "dfw1: OverridePolicy ns-1/broken fails: doc is missing path";
    assert_eq!(shown.message, expected);
    take_writes(&planes.servers());
    at(later, &federator).await;
    assert_eq!(take_writes(&planes.servers()), [""; 0]);

    planes.hub.put(binding(&copy, generation));
    at(later, &federator).await;
    assert_eq!(failure(&planes), None);
}

/// Karmada repeats an override that fails in a cell, but does not write again what a cell below a lower hub lost.
#[tokio::test(start_paused = true)]
async fn a_failing_override_does_not_stop_the_repair_of_cells_below() {
    let (planes, federator, copy) = start_with_copy().await;
    let of = |name: &str, is_lower_hub: bool| {
        let mut cluster = cluster();
        cluster["metadata"] =
            json!({"name": name, "labels": {LOWER_HUB: is_lower_hub.to_string()}});
        cluster
    };
    planes.hub.put(of("lax1", false));
    let message = "Apply override policy(ns-1/broken) for cluster(lax1) failed.";
    planes
        .hub
        .put(event(&copy, "a", "ApplyOverridePolicyFailed", message));
    let generation = copy.metadata.generation;
    let mut both = reported(
        &copy,
        &json!({
            "replicas": 1, "resourceTemplateGeneration": generation, "generation": 8,
            "cells": [{"name": "a1", "resourceTemplateGeneration": 7}],
        }),
    );
    let clusters = both["spec"]["clusters"].as_array_mut().unwrap();
    clusters.push(json!({"name": "lax1"}));
    let items = both["status"]["aggregatedStatus"].as_array_mut().unwrap();
    items.push(json!({
        "clusterName": "lax1", "applied": true, "status": {"resourceTemplateGeneration": generation.map(|it| it - 1)},
    }));
    planes.hub.put(both);
    for (is_lower_hub, is_repaired) in [(false, false), (true, true)] {
        planes.hub.put(of("dfw1", is_lower_hub));
        for clock in [now, later, later, much_later] {
            at(clock, &federator).await;
        }
        let failing = failure(&planes).unwrap().message;
        assert_eq!(failing, "lax1: OverridePolicy ns-1/broken fails");
        let annotations = on_hub(&planes).unwrap().metadata.annotations.unwrap();
        let is_touched = annotations.contains_key(annotations::REAPPLIED_AT);
        assert_eq!(is_touched, is_repaired);
    }
}

#[tokio::test(start_paused = true)]
async fn many_warnings_about_other_copies_hide_none() {
    let (planes, federator, copy) = start_with_copy().await;
    let generation = copy.metadata.generation;
    planes.hub.put(binding(&copy, generation.map(|it| it - 1)));
    let message = "Apply override policy(ns-1/broken) for cluster(dfw1) failed.";
    let reason = "ApplyOverridePolicyFailed";
    let mut other = copy.clone();
    other.metadata.uid = Some("other".to_owned());
    for number in 0..500 {
        let name = format!("0-{number:03}");
        planes.hub.put(event(&other, &name, reason, message));
    }
    planes.hub.put(event(&copy, "a", reason, message));
    for clock in [now, later, later] {
        at(clock, &federator).await;
    }
    let shown = failure(&planes).unwrap();
    assert_eq!(shown.message, "dfw1: OverridePolicy ns-1/broken fails");
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_list_events_nothing_is_said() {
    let (planes, federator, copy) = start_with_copy().await;
    planes.hub.put(binding(&copy, Some(0)));
    at(now, &federator).await;
    planes.hub.fail(Fault::refuse(403).of::<Event>());
    // The cells have lacked the copy for long.
    assert_eq!(at(later, &federator).await, Outcome::Again(Duration::ZERO));
    for _ in 0..2 {
        let expected = Outcome::Again(Duration::from_secs(3));
        assert_eq!(at(later, &federator).await, expected);
    }
    assert_eq!(failure(&planes), None);
}
