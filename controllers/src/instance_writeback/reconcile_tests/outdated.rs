//! Tests of the write-back while the hub does not answer and an Instance is replaced.

use api::WorkloadDeployment;

use super::*;
use crate::outdated_copies;

fn deployment_in_cell(planes: &CellPlanes) -> PartialDeployment {
    planes.cell.get(HUB_NAMESPACE, "web").unwrap()
}

fn record(planes: &CellPlanes) -> Vec<String> {
    let deployment = deployment_in_cell(planes);
    let names = outdated_copies::recorded(deployment.meta());
    names.into_iter().collect()
}

/// Starts with a terminating Instance that its WorkloadDeployment replaces.
async fn start_replaced() -> (CellPlanes, InstanceWriteback) {
    let (planes, writeback) = start_terminating().await;
    let mut deployment = copy("web");
    deployment["metadata"]["finalizers"] = json!([finalizers::WORKLOAD_CONTROLLER]);
    planes.cell.put(deployment);
    let owner = controller_reference(&deployment_in_cell(&planes));
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["ownerReferences"] = json!([owner]);
        });
    settle().await;
    take_writes(&planes.servers());
    (planes, writeback)
}

/// Starts with an Instance that was released while the hub did not answer.
async fn start_released() -> (CellPlanes, InstanceWriteback) {
    let (planes, writeback) = start_replaced().await;
    planes.hub.fail(Fault::disconnect());
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.expect_err("the hub does not answer");
    settle().await;
    assert!(in_cell(&planes).is_none() && on_hub(&planes).is_some());
    assert_eq!(record(&planes), [NAME]);
    take_writes(&planes.servers());
    (planes, writeback)
}

/// Creates the next Instance of the same name, with another spec.
async fn create_next(planes: &CellPlanes) {
    let mut next = json!(on_hub(planes).unwrap());
    next["metadata"] = json!({
        "name": NAME, "namespace": HUB_NAMESPACE, "uid": "next",
        "labels": on_hub(planes).unwrap().labels(),
        "finalizers": [finalizers::INSTANCE_CONTROLLER],
    });
    next["spec"]["location"] = json!({"name": "next"});
    planes.cell.put(next);
    settle().await;
}

/// I-8: the record of the copy is stored before the finalizer is removed.
#[tokio::test(start_paused = true)]
async fn a_replaced_instance_does_not_wait_for_a_hub_that_does_not_answer() {
    for fault in [Fault::disconnect(), Fault::refuse(503)] {
        let (planes, writeback) = start_replaced().await;
        planes.hub.fail(fault);
        // Without the record, the finalizer stays.
        planes
            .cell
            .fail(Fault::refuse(500).on_writes().of::<WorkloadDeployment>());
        let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
        result.expect_err("nothing can be recorded");
        assert!(in_cell(&planes).is_some());
        planes.cell.heal();
        take_writes(&planes.servers());
        let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
        let error = result.expect_err("the hub does not answer");
        assert!(error.to_string().contains("Instance"), "{error}");
        let writes = [
            "patch workloaddeployments ns-1/web",
            "patch instances ns-1/web-0",
        ];
        assert_eq!(take_writes(&planes.servers()), writes);
        assert!(in_cell(&planes).is_none());
        assert_eq!(record(&planes), [NAME]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_nothing_replaces_waits_for_the_hub() {
    type Change = fn(&mut Value);
    let changes: [Change; 3] = [
        |web| web["spec"]["scaleSettings"]["minReplicas"] = json!(0),
        |web| web["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z"),
        |web| web["spec"]["replicas"] = json!(0),
    ];
    for change in changes {
        let (planes, writeback) = start_replaced().await;
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
        settle().await;
        planes.hub.fail(Fault::disconnect());
        let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
        result.expect_err("the hub does not answer");
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
        assert!(in_cell(&planes).is_some());
    }
}

/// A hub that answers decides whether the Instance may go.
#[tokio::test(start_paused = true)]
async fn a_replaced_instance_waits_for_a_hub_that_refuses() {
    for fault in [
        Fault::refuse(403),
        Fault::answer(404, "404 page not found\n"),
        Fault::webhook_down().on(&[Verb::Delete]),
    ] {
        let (planes, writeback) = start_replaced().await;
        planes.hub.fail(fault);
        let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
        result.expect_err("the hub refuses");
        assert_eq!(take_writes(&[&planes.cell]), [""; 0]);
        assert!(in_cell(&planes).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_copy_becomes_that_of_the_next_instance() {
    let (planes, writeback) = start_released().await;
    create_next(&planes).await;
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.expect_err("the hub does not answer");
    assert_eq!(record(&planes), [NAME]);
    planes.hub.heal();
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let location = on_hub(&planes).unwrap().spec.location.unwrap();
    assert_eq!(location.name, "next");
    assert_eq!(record(&planes), [""; 0]);
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(writes, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_copy_is_deleted_if_no_instance_follows() {
    let (planes, writeback) = start_released().await;
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.expect_err("the hub does not answer");
    assert_eq!(record(&planes), [NAME]);
    planes.hub.heal();
    // The cell must confirm that no Instance follows.
    let not_served = Fault::answer(404, "404 page not found\n");
    planes
        .cell
        .fail(not_served.on(&[Verb::Get]).of::<Instance>());
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.expect_err("the cell does not say whether an Instance follows");
    assert!(on_hub(&planes).is_some());
    planes.cell.heal();
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_none());
    assert_eq!(record(&planes), [""; 0]);
}

/// I-12: the kubeconfig of the cell leads to another hub after the Instance was released.
#[tokio::test(start_paused = true)]
async fn another_hub_does_not_empty_the_record() {
    let (planes, writeback) = start_released().await;
    planes.hub.heal();
    planes.hub.put(objects::namespace("default", "another"));
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes
        .cell
        .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
            namespace["metadata"]["annotations"] = json!({annotations::HUB_UID: "own"});
        });
    settle().await;
    let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
    let error = error.expect_err("held");
    let is_held = matches!(error, ReconcileError::Contradiction { .. });
    assert!(is_held, "{error}");
    assert_eq!(record(&planes), [NAME]);
}
