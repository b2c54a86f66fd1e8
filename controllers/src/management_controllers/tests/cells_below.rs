//! Tests of changes of cells below lower hubs.

use api::LowerHub;

use super::*;

const SINCE: &str = "2026-11-21T09:30:00Z";

fn in_cell(name: &str, cell: &str) -> Value {
    let mut instance = objects::instance(HUB_NAMESPACE, name);
    instance["metadata"]["labels"] = json!({labels::SOURCE_CLUSTER: cell});
    instance
}

fn cluster(ready: &str) -> Value {
    let ready = json!({
        "type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": SINCE,
    });
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw"},
        "status": {"conditions": [ready]},
    })
}

/// The LowerHub `dfw` with the cells `a1` and `a2`, which are ready or not.
fn lower_hub(ready: [bool; 2]) -> Value {
    let cell = |(name, ready)| json!({"name": name, "ready": ready, "since": SINCE});
    let cells = ["a1", "a2"].into_iter().zip(ready).map(cell);
    json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "dfw"}, "spec": {},
        "status": {"cellCount": 2, "notReady": 0, "cells": cells.collect::<Vec<_>>()},
    })
}

/// Puts the Cluster of a lower hub, a binding that leads there, and an Instance of one of its cells on the hub.
fn put_objects_below(hub: &ApiServer) {
    hub.put(cluster("True"));
    hub.put(json!(binding(
        HUB_NAMESPACE,
        "web",
        "WorkloadDeployment",
        "dfw"
    )));
    hub.put(in_cell("in-a1", "dfw.a1"));
}

/// A cell below wakes the WorkloadDeployments of its lower hub and its own Instances, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_cell_below_wakes_what_shows_it() {
    let planes = WiredPlanes::start_with(|_, hub| {
        put_objects_below(hub);
        hub.put(json!(binding(
            HUB_NAMESPACE,
            "far",
            "WorkloadDeployment",
            "ord"
        )));
        hub.put(copy("far"));
        hub.put(in_cell("in-a2", "dfw.a2"));
        hub.put(in_cell("in-ord", "ord"));
    })
    .await;
    settle().await;
    planes.keys.take();
    let hub = &planes.hub;
    let (a1, a2) = ("projector p/default/in-a1", "projector p/default/in-a2");
    let own = "heartbeat /dfw";

    hub.put(lower_hub([true, true]));
    planes
        .expect("the cells are known", &[own, WEB, a1, a2])
        .await;
    hub.modify::<LowerHub>("", "dfw", annotate);
    planes.expect("no cell has changed", &[own]).await;
    hub.put(lower_hub([true, false]));
    planes.expect("a2 is dead", &[own, WEB, a2]).await;
    hub.put(lower_hub([false, true]));
    planes
        .expect("a1 is dead, and a2 is back", &[own, WEB, a1, a2])
        .await;
    hub.put(cluster("False"));
    planes.expect("the lower hub is dead", &[WEB, a1, a2]).await;
    hub.remove::<LowerHub>("", "dfw");
    planes
        .expect("the cells are unknown", &[own, WEB, a1, a2])
        .await;
    hub.put(json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "ord"}, "spec": {},
    }));
    planes
        .expect("nothing is reported", &["heartbeat /ord"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn lower_hubs_that_are_listed_late_wake_what_shows_their_cells() {
    let planes = WiredPlanes::start_with(|_, hub| {
        hub.stop_serving::<LowerHub>();
        put_objects_below(hub);
        hub.put(lower_hub([false, true]));
    })
    .await;
    let state = || planes.management.hub.hub.cells.state("dfw.a1");
    sleep(Duration::from_mins(2)).await;
    planes.keys.take();
    assert!(!state().is_cut_off());
    planes.hub.serve_again::<LowerHub>();
    sleep(Duration::from_mins(2)).await;
    let keys = ["heartbeat /dfw", WEB, "projector p/default/in-a1"];
    planes.expect("LowerHubs are listed", &keys).await;
    assert!(state().is_cut_off());
}

/// Only LowerHubs that report are shown as silent. Their Leases have a label and a namespace of their own.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_the_lower_hub_and_a_silent_process_what_shows_its_cells() {
    let planes = WiredPlanes::start_with(|_, hub| {
        put_objects_below(hub);
        hub.put(lower_hub([true, true]));
    })
    .await;
    let lease = |name: &str, label: &str, time: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "namespace": "compute-system", "name": name, "labels": {labels::LOWER_HUB: label},
            },
            "spec": {"renewTime": time},
        })
    };
    let (of_dfw, at) = ("compute-lower-hub-dfw", "2026-11-21T09:30:00.000000Z");
    let heartbeats = &planes.management.hub.hub.lower_hubs.heartbeats;
    settle().await;
    planes.keys.take();
    planes.hub.put(lease("election", "true", at));
    planes.hub.put(lease(of_dfw, "false", at));
    planes.expect("Leases of others", &[]).await;
    planes.hub.put(lease(of_dfw, "true", at));
    planes.expect("a heartbeat", &["heartbeat /dfw"]).await;
    assert!(!heartbeats.last("dfw").unwrap().has_arrived);
    planes
        .hub
        .put(lease(of_dfw, "true", "2026-11-21T09:30:10.000000Z"));
    planes.expect("another one", &["heartbeat /dfw"]).await;
    assert!(heartbeats.last("dfw").unwrap().has_arrived);

    planes.hub.modify::<LowerHub>("", "dfw", |it| {
        it["status"]["conditions"] = json!([{
            "type": "Reporting", "status": "False", "reason": "ProcessSilent", "message": "m",
            "lastTransitionTime": SINCE,
        }]);
    });
    let keys = ["heartbeat /dfw", WEB, "projector p/default/in-a1"];
    planes.expect("the process is silent", &keys).await;
    let cells = &planes.management.hub.hub.cells;
    assert!(!cells.silent("dfw").is_empty() && !cells.knows("dfw.a1"));
    planes.hub.put(cluster("False"));
    settle().await;
    assert_eq!(cells.silent("dfw"), [], "the Cluster is dead");
}
