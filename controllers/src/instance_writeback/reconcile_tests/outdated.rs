//! Tests of the write-back after an Instance was released while the hub did not answer.

use api::WorkloadDeployment;

use super::*;
use crate::outdated_copies::record::recorded;

fn deployment_in_cell(planes: &CellPlanes) -> PartialDeployment {
    planes.cell.get(HUB_NAMESPACE, "web").unwrap()
}

fn record(planes: &CellPlanes) -> Vec<String> {
    let deployment = deployment_in_cell(planes);
    let names = recorded(deployment.meta());
    names.into_iter().collect()
}

/// Starts with the copy of an Instance that was released while the hub did not answer.
async fn start_released() -> (CellPlanes, InstanceWriteback) {
    let (planes, writeback) = start().await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            let generation = instance["metadata"]["generation"].clone();
            let conditions = instance["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(programmed(&generation));
        });
    settle().await;
    judge(&planes).await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let mut deployment = copy("web");
    let record = json!([NAME]).to_string();
    deployment["metadata"]["annotations"] = json!({annotations::OUTDATED_COPIES: record});
    planes.cell.put(deployment);
    planes.cell.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes.hub.fail(Fault::disconnect());
    settle().await;
    assert!(on_hub(&planes).is_some());
    take_writes(&planes.servers());
    (planes, writeback)
}

/// Returns a condition of the provider about this generation.
fn programmed(generation: &Value) -> Value {
    let mut condition = objects::condition("Programmed", "True");
    condition["observedGeneration"] = generation.clone();
    condition
}

/// Writes the condition `Ready`.
async fn judge(planes: &CellPlanes) {
    let readiness = ReadinessController {
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(ReadinessController::NAME, &planes.metrics),
        lifecycle: planes.lifecycle.clone(),
    };
    converge(&readiness, || object_key(NAME), &[&planes.cell]).await;
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
    judge(planes).await;
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
    for follows in [false, true] {
        let (planes, writeback) = start_released().await;
        planes.hub.heal();
        if follows {
            create_next(&planes).await;
        }
        planes.hub.put(objects::namespace("default", "another"));
        planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
        planes
            .cell
            .modify::<Namespace>("", HUB_NAMESPACE, |namespace| {
                namespace["metadata"]["annotations"] = json!({annotations::HUB_UID: "own"});
            });
        settle().await;
        let mut is_held = false;
        for _ in 0..4 {
            let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
            is_held = matches!(result, Err(ReconcileError::Contradiction { .. }));
            settle().await;
        }
        assert!(is_held, "{follows}");
        assert_eq!(record(&planes), [NAME], "{follows}");
    }
}

/// A generation in the status of the former Instance is none of the next one.
#[tokio::test(start_paused = true)]
async fn the_next_instance_inherits_no_observed_generation() {
    let (planes, writeback) = start_released().await;
    planes.hub.heal();
    let observed = || {
        let status = on_hub(&planes).unwrap().status.unwrap();
        let programmed = api::condition::find(&status.conditions, "Programmed").unwrap();
        programmed.observed_generation
    };
    assert_eq!(observed(), on_hub(&planes).unwrap().metadata.generation);
    create_next(&planes).await;
    let spec = on_hub(&planes).unwrap().spec;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["spec"] = json!(spec);
            instance["metadata"]["generation"] = json!(4);
            let conditions = instance["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(programmed(&json!(3)));
        });
    settle().await;
    judge(&planes).await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(observed(), None);
    assert_eq!(record(&planes), [""; 0]);
}

/// The Instance was released, and has another finalizer. Nothing writes its copy any more.
#[tokio::test(start_paused = true)]
async fn the_copy_of_a_released_instance_is_deleted_before_the_instance_is_gone() {
    let (planes, writeback) = start_released().await;
    let mut instance = json!(instance(HUB_NAMESPACE, NAME));
    instance["metadata"]["finalizers"] = json!(["example.com/provider"]);
    instance["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
    planes.cell.put(instance);
    settle().await;
    // A success without a request to the hub would end the outage of the queue.
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.expect_err("the hub does not answer");
    assert_eq!(record(&planes), [NAME]);
    planes.hub.heal();
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_none() && in_cell(&planes).is_some());
    assert_eq!(record(&planes), [""; 0]);
}

/// The status of the next Instance must be on the hub before the record ends.
#[tokio::test(start_paused = true)]
async fn the_record_stays_until_the_status_is_written() {
    let (planes, writeback) = start_released().await;
    planes.hub.heal();
    let mut next = json!(instance(HUB_NAMESPACE, NAME));
    next["metadata"]["labels"] = json!(on_hub(&planes).unwrap().labels());
    next["metadata"]["finalizers"] = json!([finalizers::INSTANCE_CONTROLLER]);
    planes.cell.put(next);
    settle().await;
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record(&planes), [NAME]);
    judge(&planes).await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(record(&planes), [""; 0]);
}

/// All remove their names from one record.
#[tokio::test(start_paused = true)]
async fn copies_that_become_current_at_once_leave_the_record() {
    let (planes, writeback) = start_released().await;
    let names = ["web-0", "web-1", "web-2"];
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |web| {
            let record = json!(names).to_string();
            web["metadata"]["annotations"] = json!({annotations::OUTDATED_COPIES: record});
        });
    planes.hub.heal();
    settle().await;
    let one = |name| reconcile(&writeback, object_key(name));
    let (a, b, c) = tokio::join!(one(names[0]), one(names[1]), one(names[2]));
    for result in [a, b, c] {
        result.unwrap().unwrap();
    }
    assert_eq!(record(&planes), [""; 0]);
}
