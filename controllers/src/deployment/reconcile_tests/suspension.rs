//! Tests of the suspension of a deployment with two Instances.

use api::annotations;
use api::condition;
use apiserver::ObjectPart;

use super::*;

const MARKS: [&str; 2] = [
    "patch instances/status ns-1/web-0",
    "patch instances/status ns-1/web-1",
];
const STATUS: &str = "apply workloaddeployments/status ns-1/web";

/// Starts with two Instances that run.
async fn start_running() -> (CellPlanes, DeploymentController) {
    let (planes, controller) = start().await;
    modify(&planes, |deployment| {
        deployment["spec"]["replicas"] = json!(2);
    })
    .await;
    for name in ["web-0", "web-1"] {
        converge(&controller, || object_key("web"), &planes.servers()).await;
        planes
            .cell
            .modify::<Instance>(HUB_NAMESPACE, name, |instance| {
                instance["status"] = running();
            });
        settle().await;
    }
    converge(&controller, || object_key("web"), &planes.servers()).await;
    take_writes(&planes.servers());
    (planes, controller)
}

async fn modify(planes: &CellPlanes, change: impl FnOnce(&mut Value)) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
    settle().await;
}

async fn set_suspended(planes: &CellPlanes, value: Option<&str>) {
    modify(planes, |deployment| {
        let metadata = &mut deployment["metadata"];
        metadata["annotations"][annotations::SUSPENDED] = json!(value);
        if value.is_none() {
            let annotations = metadata["annotations"].as_object_mut().unwrap();
            annotations.remove(annotations::SUSPENDED);
        }
    })
    .await;
}

fn instance(planes: &CellPlanes, name: &str) -> Instance {
    planes.cell.get(HUB_NAMESPACE, name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_suspended_deployment_is_written_once_and_waits_with_its_rollout() {
    let (planes, controller) = start_running().await;
    let former = instance(&planes, "web-0");
    set_suspended(&planes, Some("true")).await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert_eq!(writes, [MARKS[0], MARKS[1], STATUS]);
    modify(&planes, |deployment| {
        deployment["spec"]["template"]["spec"]["later"] = json!("changed");
    })
    .await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert_eq!(writes, [STATUS]);
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    let status = deployment(&planes).unwrap().status.unwrap();
    let available = condition::find(&status.conditions, "Available").unwrap();
    assert_eq!((status.suspended, status.ready_replicas), (Some(true), 0));
    assert_eq!(available.reason, "Suspended");

    set_suspended(&planes, None).await;
    let resumed = reconcile(&controller, object_key("web")).await.unwrap();
    resumed.unwrap();
    assert_eq!(take_writes(&planes.servers()), MARKS);
    let kept = instance(&planes, "web-0");
    assert_eq!(kept.metadata.uid, former.metadata.uid);
    assert_eq!(kept.status.unwrap().suspended, None);
    // The rollout goes on with the Instance that it would have replaced first.
    let replaced = reconcile(&controller, object_key("web")).await.unwrap();
    replaced.unwrap();
    let writes = take_writes(&planes.servers());
    assert_eq!(writes, ["delete instances ns-1/web-1"]);
}

/// I-8: a suspension keeps nothing from its end.
#[tokio::test(start_paused = true)]
async fn a_suspended_deployment_can_be_deleted() {
    let (planes, controller) = start_running().await;
    set_suspended(&planes, Some("true")).await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    modify(&planes, |deployment| {
        deployment["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
    })
    .await;
    let writes = converge(&controller, || object_key("web"), &planes.servers()).await;
    let deletions = ["web-0", "web-1"].map(|name| format!("delete instances ns-1/{name}"));
    assert_eq!(writes, deletions);
    for name in ["web-0", "web-1"] {
        planes.cell.remove::<Instance>(HUB_NAMESPACE, name);
    }
    settle().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(deployment(&planes).is_none());
}

/// The CRD of Instances in the cell may be older. Then no provider learns of the suspension.
#[tokio::test(start_paused = true)]
async fn a_suspension_that_is_not_stored_is_shown_and_not_repeated() {
    let (planes, controller) = start_running().await;
    planes.cell.amend::<Instance>(|instance| {
        if let Some(status) = instance["status"].as_object_mut() {
            status.remove("suspended");
        }
    });
    set_suspended(&planes, Some("true")).await;
    for written in [&[MARKS[0], MARKS[1], STATUS][..], &[]] {
        let error = reconcile(&controller, object_key("web")).await.unwrap();
        let error = error.unwrap_err();
        assert!(
            matches!(error, ReconcileError::DoesNotStay { .. }),
            "{error}"
        );
        assert_eq!(take_writes(&planes.servers()), written);
    }
    let status = deployment(&planes).unwrap().status.unwrap();
    let available = condition::find(&status.conditions, "Available").unwrap();
    assert_eq!(available.reason, "Suspended");
    assert!(available.message.contains("web-0"), "{}", available.message);
}

#[tokio::test(start_paused = true)]
async fn a_suspension_that_a_broken_webhook_stops_is_shown() {
    let (planes, controller) = start_running().await;
    planes.cell.fail(
        Fault::webhook_down()
            .of::<Instance>()
            .part(ObjectPart::Status),
    );
    set_suspended(&planes, Some("true")).await;
    reconcile(&controller, object_key("web"))
        .await
        .unwrap()
        .unwrap_err();
    let status = deployment(&planes).unwrap().status.unwrap();
    let available = condition::find(&status.conditions, "Available").unwrap();
    assert_eq!(
        (status.suspended, available.reason.as_str()),
        (None, "Suspended")
    );
    let message = &available.message;
    assert!(message.contains("failed calling webhook"), "{message}");
}
