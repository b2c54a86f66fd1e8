//! Tests of the controller of a lower hub with its watches. Both hubs are in-memory API servers.

use std::time::Duration;

use apiserver::{ApiServer, Fault, objects};
use multicluster::heartbeat::{BEAT_INTERVAL, GRACE};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::fixtures::now;
use crate::fixtures::servers::{settle, take_writes};

fn cluster(name: &str, ready: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "status": {"conditions": [{
            "type": "Ready", "status": ready, "reason": "r", "message": "m",
            "lastTransitionTime": "2026-11-21T09:30:00Z",
        }]},
    })
}

/// The heartbeat to the upper hub.
const BEAT: &str = "patch leases compute-system/compute-lower-hub-dfw";

/// Returns the Lease of a lower hub.
fn lease(lower_hub: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {},
        "metadata": {
            "namespace": NAMESPACE, "name": lease_of(lower_hub), "labels": {LOWER_HUB: "true"},
        },
    })
}

fn lower_hub(name: &str) -> Value {
    json!({"apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": name}, "spec": {}})
}

/// Starts the process of the lower hub `dfw`.
fn start_dfw(tasks: &Tasks, lower: &ApiServer, upper: &ApiServer) -> (Synced, CancellationToken) {
    let may_write = CancellationToken::new();
    let config = Config {
        name: CellName::new("dfw").unwrap(),
        client: lower.client(),
        upper_hub: upper.client(),
        metrics: Metrics::default(),
        may_write: may_write.clone(),
        clock: now,
    };
    let (synced, _) = start(tasks, config);
    (synced, may_write)
}

#[tokio::test(start_paused = true)]
async fn a_dead_cell_is_reported_at_once_and_a_heartbeat_is_not() {
    let (lower, upper) = (ApiServer::new(), ApiServer::new());
    lower.put(cluster("a1", "True"));
    upper.put(lower_hub("dfw"));
    upper.put(lease("dfw"));
    let tasks = Tasks::default();
    let (synced, may_write) = start_dfw(&tasks, &lower, &upper);
    settle().await;
    assert_eq!(synced.pending(), [""; 0]);
    assert_eq!(upper.requests(), 0, "it may not write");
    may_write.cancel();
    settle().await;
    let dead = || {
        let status = upper.get::<LowerHub>("", "dfw").unwrap().status.unwrap();
        let dead = status.cells.into_iter().filter(|cell| !cell.ready);
        dead.map(|cell| cell.name).collect::<Vec<_>>()
    };
    assert_eq!(dead(), [""; 0]);
    take_writes(&[&upper]);

    lower.modify::<Cluster>("", "a1", |it| {
        it["metadata"]["annotations"] = json!({"beat": "1"});
    });
    settle().await;
    assert_eq!(upper.requests(), 0);
    lower.put(cluster("a1", "False"));
    settle().await;
    assert_eq!(dead(), ["a1"]);
    lower.put(cluster("a2", "True"));
    settle().await;
    let writes = take_writes(&[&lower, &upper]);
    assert_eq!(writes.iter().filter(|it| *it != BEAT).count(), 2);

    // The LowerHub is made anew. No watch reports that.
    upper.put(lower_hub("dfw"));
    sleep(Duration::from_mins(2)).await;
    assert_eq!(dead(), ["a1"]);
    take_writes(&[&upper]);
    sleep(Duration::from_hours(6)).await;
    let (beats, others): (Vec<_>, Vec<_>) = take_writes(&[&lower, &upper])
        .into_iter()
        .partition(|write| write == BEAT);
    assert_eq!(others, [""; 0]);
    assert!((2150..=2161).contains(&beats.len()), "{}", beats.len());

    // Without the Clusters or the LowerHub, the upper hub does not learn which cells die.
    let silence = async || {
        take_writes(&[&upper]);
        sleep(Duration::from_mins(10)).await;
        !take_writes(&[&upper]).contains(&BEAT.to_owned())
    };
    assert!(!silence().await);
    lower.fail(Fault::refuse(503).of::<Cluster>());
    lower.interrupt();
    sleep(Duration::from_mins(1)).await;
    assert!(silence().await);
    lower.heal();
    sleep(Duration::from_mins(2)).await;
    assert!(!silence().await);
    upper.remove::<LowerHub>("", "dfw");
    sleep(Duration::from_mins(2)).await;
    assert!(silence().await);
}

/// The further lower hub `mid` is below `dfw`. Both API servers serve while its process does not run.
#[tokio::test(start_paused = true)]
async fn the_silent_process_of_a_further_lower_hub_is_shown_on_both_hubs() {
    let (lower, upper) = (ApiServer::new(), ApiServer::new());
    lower.put(cluster("mid", "True"));
    let mut mid = lower_hub("mid");
    mid["status"] = json!({"cellCount": 1, "notReady": 0, "cells": [{"name": "x", "ready": true}]});
    lower.put(mid);
    lower.put(lease("mid"));
    upper.put(lower_hub("dfw"));
    upper.put(lease("dfw"));
    let tasks = Tasks::default();
    let (_, may_write) = start_dfw(&tasks, &lower, &upper);
    may_write.cancel();
    let mut beats = 0;
    let mut beat = async || {
        beats += 1;
        lower.modify::<Lease>(NAMESPACE, &lease_of("mid"), |lease| {
            lease["spec"]["renewTime"] = json!(format!("2026-11-21T09:30:{beats:02}.000000Z"));
        });
        sleep(BEAT_INTERVAL).await;
    };
    let shown = || {
        let of =
            |server: &ApiServer, name| server.get::<LowerHub>("", name).unwrap().status.unwrap();
        let (mid, dfw) = (of(&lower, "mid"), of(&upper, "dfw"));
        let cells: Vec<_> = dfw.cells.into_iter().map(|it| it.name).collect();
        assert_eq!(cells, ["mid.x"], "the list stays");
        let reasons: Vec<_> = mid.conditions.into_iter().map(|it| it.reason).collect();
        let silent: Vec<_> = dfw
            .silent_lower_hubs
            .into_iter()
            .map(|it| it.name)
            .collect();
        (reasons.join(" "), silent.join(" "))
    };
    beat().await;
    beat().await;
    let reports = ("ProcessReports".to_owned(), String::new());
    assert_eq!(shown(), reports);
    take_writes(&[&lower, &upper]);
    for _ in 0..6 {
        beat().await;
    }
    let writes = || {
        let mut writes = take_writes(&[&lower, &upper]);
        writes.retain(|write| write != BEAT);
        writes
    };
    assert_eq!(writes(), [""; 0]);

    sleep(GRACE).await;
    assert_eq!(shown(), ("ProcessSilent".to_owned(), "mid".to_owned()));
    assert_eq!(
        writes(),
        ["patch lowerhubs/status mid", "patch lowerhubs/status dfw"]
    );
    sleep(Duration::from_mins(10)).await;
    assert_eq!(writes(), [""; 0], "it is still silent");
    beat().await;
    assert_eq!(shown(), reports);
}

/// The lower hub may be another one.
#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_further_lower_hubs_while_no_report_has_arrived() {
    let (lower, upper) = (ApiServer::new(), ApiServer::new());
    for (server, uid) in [(&lower, "lower"), (&upper, "upper")] {
        server.put(objects::namespace("default", uid));
    }
    let mut mid = lower_hub("mid");
    mid["metadata"]["creationTimestamp"] = json!((now() - GRACE).to_string());
    lower.put(mid);
    upper.put(lease("dfw"));
    let mut dfw = lower_hub("dfw");
    dfw["status"] = json!({"cellCount": 0, "notReady": 0, "hubUID": "another"});
    let tasks = Tasks::default();
    let (_, may_write) = start_dfw(&tasks, &lower, &upper);
    may_write.cancel();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(
        take_writes(&[&lower, &upper]),
        [""; 0],
        "there is no LowerHub"
    );
    upper.put(dfw);
    sleep(Duration::from_mins(10)).await;
    assert_eq!(
        take_writes(&[&lower, &upper]),
        [""; 0],
        "it is of another lower hub"
    );
    upper.put(lower_hub("dfw"));
    sleep(Duration::from_mins(10)).await;
    let writes = take_writes(&[&lower, &upper]);
    let of_mid = writes.iter().filter(|it| it.ends_with(" mid"));
    assert!(of_mid.eq(["patch lowerhubs/status mid"]));
}
