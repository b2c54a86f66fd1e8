//! Tests of a cell that cannot be reached.

use api::ConditionStatus;

use super::*;

/// Writes the Cluster of the cell `dfw1`.
async fn join(planes: &FakePlanes, ready: &str) {
    planes.hub.put(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "dfw1", "uid": "dfw1"},
        "status": {"conditions": [objects::condition("Ready", ready)]},
    }));
    settle().await;
}

/// Reconciles the projection after its copy was deleted by hand. Returns whether the projection stays.
async fn stays(planes: &FakePlanes, projector: &Projector) -> bool {
    let reconciled = reconcile(projector, instance_key(NAME)).await.unwrap();
    let is_kept = projection(planes).is_some();
    let is_waiting = matches!(reconciled, Err(ReconcileError::NotYet { .. }));
    assert_eq!(is_waiting, is_kept, "{reconciled:?}");
    is_kept
}

/// Returns the status and the reason of `Ready` in the project.
fn shown(planes: &FakePlanes) -> (ConditionStatus, String) {
    let status = projection(planes).unwrap().status.unwrap();
    let ready = api::condition::find(&status.conditions, "Ready").unwrap();
    (ready.status, ready.reason.clone())
}

/// I-12: only the cell of an Instance knows whether the Instance is gone. The report of the WorkloadDeployment may be
/// that of another cell of the city.
#[tokio::test(start_paused = true)]
async fn a_copy_that_was_deleted_by_hand_proves_nothing_while_its_cell_cannot_be_reached() {
    for (later, is_left) in [("True", false), ("", true)] {
        let (planes, projector) = start().await;
        planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!("dfw1");
        });
        join(&planes, "True").await;
        converge(&projector, || instance_key(NAME), &planes.servers()).await;
        join(&planes, "False").await;
        planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
        settle().await;
        assert!(stays(&planes, &projector).await);
        assert_eq!(
            shown(&planes),
            (ConditionStatus::Unknown, "CellUnreachable".to_owned())
        );
        take_writes(&planes.servers());
        assert!(stays(&planes, &projector).await);
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
        // The cell is back, or it has left the federation.
        match is_left {
            false => join(&planes, later).await,
            true => {
                planes.hub.remove::<api::karmada::Cluster>("", "dfw1");
                settle().await;
            }
        }
        assert!(!stays(&planes, &projector).await, "{later}");
    }
}
