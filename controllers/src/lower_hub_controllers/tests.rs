//! Tests of the controller of a lower hub with its watches. Both hubs are in-memory API servers.

use std::time::Duration;

use apiserver::{ApiServer, Fault};
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

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {},
        "metadata": {"namespace": "compute-system", "name": "compute-lower-hub-dfw"},
    })
}

#[tokio::test(start_paused = true)]
async fn a_dead_cell_is_reported_at_once_and_a_heartbeat_is_not() {
    let (lower, upper) = (ApiServer::new(), ApiServer::new());
    lower.put(cluster("a1", "True"));
    upper.put(json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "dfw"}, "spec": {},
    }));
    upper.put(lease());
    let (tasks, may_write) = (Tasks::default(), CancellationToken::new());
    let config = Config {
        name: CellName::new("dfw").unwrap(),
        client: lower.client(),
        upper_hub: upper.client(),
        metrics: Metrics::default(),
        may_write: may_write.clone(),
        clock: now,
    };
    let (synced, _) = start(&tasks, config);
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
    upper.put(json!({
        "apiVersion": api::API_VERSION, "kind": "LowerHub", "metadata": {"name": "dfw"}, "spec": {},
    }));
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
