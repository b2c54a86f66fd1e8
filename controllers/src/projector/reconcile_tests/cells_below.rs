//! Tests of cells below a lower hub.

use api::labels::LOWER_HUB;
use api::{ConditionStatus, LowerHub};

use super::*;

const SINCE: &str = "2026-11-21T09:30:00Z";

/// Writes the Cluster `dfw`, which is a lower hub or a cell.
async fn join(planes: &FakePlanes, is_lower_hub: bool) {
    planes.hub.put(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "dfw", "uid": "dfw", "labels": {LOWER_HUB: is_lower_hub.to_string()}},
        "status": {"conditions": [objects::condition("Ready", "True")]},
    }));
    settle().await;
}

/// Lets the lower hub report that its only cell `a1` is ready or not.
async fn report(planes: &FakePlanes, is_ready: bool) {
    planes.hub.put(json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "dfw"}, "spec": {},
        "status": {
            "cellCount": 1, "notReady": 0, "cells": [{"name": "a1", "ready": is_ready, "since": SINCE}],
        },
    }));
    settle().await;
}

/// Starts with a copy in the cell `dfw.a1`, whose projection shows it.
async fn start_below() -> (FakePlanes, Projector) {
    let (planes, projector) = start().await;
    planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
        copy["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!("dfw.a1");
    });
    join(&planes, true).await;
    report(&planes, true).await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    (planes, projector)
}

fn shown(planes: &FakePlanes) -> ConditionStatus {
    let status = projection(planes).unwrap().status.unwrap();
    api::condition::find(&status.conditions, "Ready")
        .unwrap()
        .status
}

/// Reconciles the projection. Returns whether it stays.
async fn stays(planes: &FakePlanes, projector: &Projector) -> bool {
    let _ = reconcile(projector, instance_key(NAME)).await.unwrap();
    projection(planes).is_some()
}

/// I-12: the report of another cell below the lower hub says nothing about this cell.
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_deleted_by_hand_proves_nothing_while_nobody_knows_its_cell() {
    let (planes, projector) = start_below().await;
    planes.hub.remove::<LowerHub>("", "dfw");
    planes
        .hub
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |copy| {
            let entry = |cell: &str, replicas: i32| {
                json!({
                    "name": cell, "currentReplicas": replicas, "desiredReplicas": replicas,
                    "readyReplicas": replicas, "replicas": replicas,
                })
            };
            copy["status"]["cells"] = json!([entry("dfw.a1", 1), entry("dfw.a2", 1)]);
        });
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    assert!(stays(&planes, &projector).await);
    report(&planes, true).await;
    assert!(!stays(&planes, &projector).await);
}

#[tokio::test(start_paused = true)]
async fn a_cell_whose_cluster_changed_its_role_does_not_exist_any_more() {
    let (planes, projector) = start_below().await;
    assert_eq!(shown(&planes), ConditionStatus::True);
    report(&planes, false).await;
    assert!(stays(&planes, &projector).await);
    assert_eq!(shown(&planes), ConditionStatus::Unknown);
    report(&planes, true).await;
    assert!(stays(&planes, &projector).await);
    assert_eq!(shown(&planes), ConditionStatus::True);
    join(&planes, false).await;
    assert!(stays(&planes, &projector).await);
    assert_eq!(shown(&planes), ConditionStatus::Unknown);
}
