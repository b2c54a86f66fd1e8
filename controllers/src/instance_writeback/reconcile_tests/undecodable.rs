//! Tests of Instances and copies that cannot be decoded.

use api::WorkloadDeployment;

use crate::cell_companions::CellCompanions;
use crate::deployment::{AbsentInstances, DeploymentController};
use crate::fixtures::servers::{CellPlanes, terminating_json};
use crate::names;
use crate::quota::ReplacementQuota;

use super::*;

/// Makes an Instance undecodable.
fn spoil(server: &ApiServer) {
    server.modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
        instance["spec"] = json!({"runtime": 7});
    });
}

/// Returns whether the API server has the Instance. The Instance need not be decodable.
fn has_instance(server: &ApiServer) -> bool {
    let key = (HUB_NAMESPACE.to_owned(), NAME.to_owned());
    server.stored(KindId::of::<Instance>(), &key).is_some()
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_instance_goes_with_its_deployment() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            let owner: WorkloadDeployment = serde_json::from_value(copy("web")).unwrap();
            let metadata = &mut instance["metadata"];
            metadata["ownerReferences"] = json!([controller_reference(&owner)]);
            metadata["labels"][labels::WORKLOAD_DEPLOYMENT_UID] = json!(owner.uid());
        });
    spoil(&planes.cell);
    let mut deployment = terminating_json(copy("web"));
    deployment["metadata"]["finalizers"] = json!([finalizers::WORKLOAD_CONTROLLER]);
    planes.cell.put(deployment);
    settle().await;
    let deployments = DeploymentController {
        gates: Vec::new(),
        quota: ReplacementQuota::new(Arc::clone(&planes.caches), None),
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(DeploymentController::NAME, &planes.metrics),
        companions: CellCompanions::default(),
        absent: AbsentInstances::new(|_| {}),
        lifecycle: planes.lifecycle.clone(),
    };
    converge(&deployments, || object_key("web"), &planes.servers()).await;
    let has_deployment = || {
        planes
            .cell
            .get::<WorkloadDeployment>(HUB_NAMESPACE, "web")
            .is_some()
    };
    assert!(has_instance(&planes.cell) && has_deployment());
    // Another hub does not prove that the copy is gone.
    let recorded = |uid: &str| {
        planes
            .cell
            .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
                namespace["metadata"]["annotations"] = json!({annotations::HUB_UID: uid});
            });
    };
    planes.hub.put(objects::namespace("default", "another"));
    recorded("own");
    let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
    let error = error.expect_err("held");
    assert!(
        matches!(error, ReconcileError::Contradiction { .. }),
        "{error}"
    );
    assert!(has_instance(&planes.cell) && has_instance(&planes.hub));
    recorded("another");
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(!has_instance(&planes.cell) && !has_instance(&planes.hub));
    converge(&deployments, || object_key("web"), &planes.servers()).await;
    assert!(!has_deployment());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_instance_that_stays_keeps_its_copy() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    spoil(&planes.cell);
    settle().await;
    let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
    let error = error.expect_err("the Instance cannot be decoded");
    assert!(
        matches!(error, ReconcileError::Undecodable { .. }),
        "{error}"
    );
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    assert!(has_instance(&planes.cell) && has_instance(&planes.hub));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_copy_goes_with_its_instance() {
    let (planes, writeback) = start_terminating().await;
    spoil(&planes.hub);
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(!has_instance(&planes.cell) && !has_instance(&planes.hub));
}

/// Writes a copy of another cell with the name of the Instance.
fn held(planes: &CellPlanes, cell: &str) {
    planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
        copy["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!(cell);
    });
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_copy_of_another_cell_does_not_block_the_copy_of_this_cell() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    held(&planes, "another");
    spoil(&planes.hub);
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let copy = names::copy_name(NAME, planes.caches.name.as_str());
    assert!(writes[1].ends_with(&copy), "{writes:?}");
    assert!(planes.hub.get::<Instance>(HUB_NAMESPACE, &copy).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_copy_without_an_instance_is_deleted() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    spoil(&planes.hub);
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["finalizers"] = json!([]);
        });
    planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(!has_instance(&planes.hub));
}
