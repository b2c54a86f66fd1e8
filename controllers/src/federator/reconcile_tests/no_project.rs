//! Tests of connections of projects that lead to a hub or a cell. Copies of copies would have copies without end.

use super::*;

/// Reconciles once. Nothing may be written, and the error must have this text.
async fn nothing_is_written(planes: &FakePlanes, federator: &Federator, problem: &str) {
    let error = reconcile(federator, project_key(NAME)).await.unwrap();
    let error = error.expect_err("held").to_string();
    assert!(error.contains(problem), "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_hub_is_no_project() {
    let new = json!(deployment("default", NAME, "DFW", 1));
    let (planes, federator) = start(new, Vec::new()).await;
    planes.hub.put(objects::namespace(DEFAULT_NAMESPACE, "1"));
    settle().await;
    nothing_is_written(&planes, &federator, "its API server is the hub").await;
    // The connection is corrected.
    planes.hub.remove::<Namespace>("", DEFAULT_NAMESPACE);
    planes
        .hub
        .put(objects::namespace(DEFAULT_NAMESPACE, HUB_UID));
    settle().await;
    let _ = reconcile(&federator, project_key(NAME)).await.unwrap();
    assert_ne!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cell_is_no_project() {
    let new = json!(deployment("default", NAME, "DFW", 1));
    let (planes, federator) = start(new, Vec::new()).await;
    planes
        .project
        .modify::<Namespace>("", "default", |namespace| {
            namespace["metadata"]["labels"] = hub_namespace()["metadata"]["labels"].clone();
        });
    settle().await;
    take_writes(&planes.servers());
    nothing_is_written(&planes, &federator, "must not lead to a hub or a cell").await;
}
