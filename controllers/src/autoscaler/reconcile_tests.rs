//! Tests of the autoscaler controller, with an in-memory API server of a cell.

use api::annotations::ASSIGNED_REPLICAS;
use serde_json::Value;

use super::*;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, converge, copy, object_key, reconcile, settle, take_writes,
};

const CREATE: &str = "create horizontalpodautoscalers ns-1/web";
const APPLY: &str = "apply horizontalpodautoscalers ns-1/web";
const DELETE: &str = "delete horizontalpodautoscalers ns-1/web";
const NUMBER: &str = "patch workloaddeployments ns-1/web";

fn scaled() -> Value {
    let mut deployment = copy("web");
    deployment["spec"]["scaleSettings"] = json!({
        "instanceManagementPolicy": "OrderedReady", "minReplicas": 2, "maxReplicas": 5,
        "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 80}}}],
    });
    deployment
}

async fn start(deployment: Value) -> (CellPlanes, AutoscalerController) {
    let planes = CellPlanes::start(vec![deployment], Vec::new()).await;
    let controller = AutoscalerController {
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(AutoscalerController::NAME, &planes.metrics),
    };
    (planes, controller)
}

async fn change(planes: &CellPlanes, change: impl Fn(&mut Value)) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", change);
    settle().await;
}

async fn writes(planes: &CellPlanes, controller: &AutoscalerController) -> Vec<String> {
    converge(controller, || object_key("web"), &planes.servers()).await
}

fn autoscaler(planes: &CellPlanes) -> Option<HorizontalPodAutoscaler> {
    planes.cell.get(HUB_NAMESPACE, "web")
}

fn replicas(planes: &CellPlanes) -> Option<i32> {
    let deployment: WorkloadDeployment = planes.cell.get(HUB_NAMESPACE, "web").unwrap();
    deployment.spec.replicas
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_comes_and_goes_with_the_settings() {
    let (planes, controller) = start(scaled()).await;
    assert_eq!(writes(&planes, &controller).await, [CREATE, NUMBER]);
    assert_eq!(replicas(&planes), Some(2));
    let owners = autoscaler(&planes).unwrap().metadata.owner_references;
    assert_eq!(owners.unwrap()[0].uid, "web-copy");

    // The autoscaler scales. The controller makes no write.
    planes
        .cell
        .modify::<HorizontalPodAutoscaler>(HUB_NAMESPACE, "web", |it| {
            it["status"] = json!({"desiredReplicas": 4, "currentReplicas": 2, "conditions": []});
        });
    change(&planes, |it| it["spec"]["replicas"] = json!(4)).await;
    assert_eq!(writes(&planes, &controller).await, [""; 0]);

    change(&planes, |it| {
        it["spec"]["scaleSettings"]["maxReplicas"] = json!(9);
    })
    .await;
    assert_eq!(writes(&planes, &controller).await, [APPLY]);
    assert_eq!(autoscaler(&planes).unwrap().spec.max_replicas, 9);

    change(&planes, |it| {
        let settings = it["spec"]["scaleSettings"].as_object_mut().unwrap();
        settings.remove("metrics");
    })
    .await;
    assert_eq!(writes(&planes, &controller).await, [NUMBER, DELETE]);
    assert_eq!(replicas(&planes), None);
    assert_eq!(autoscaler(&planes), None);
}

#[tokio::test(start_paused = true)]
async fn a_number_of_karmada_ends_autoscaling_and_stays() {
    let (planes, controller) = start(scaled()).await;
    writes(&planes, &controller).await;
    change(&planes, |it| {
        it["spec"]["replicas"] = json!(3);
        it["metadata"]["managedFields"] = json!([{
            "manager": "karmada-controller-manager", "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }]);
    })
    .await;
    assert_eq!(writes(&planes, &controller).await, [DELETE]);
    assert_eq!(replicas(&planes), Some(3));
}

/// Karmada writes back what the controller has removed: it has retained the number of an old observation. An
/// OverridePolicy looks the same, but its number comes back.
#[tokio::test(start_paused = true)]
async fn a_number_that_karmada_writes_back_is_removed_once_more() {
    let mut deployment = copy("web");
    deployment["spec"]["replicas"] = json!(3);
    deployment["metadata"]["annotations"][ASSIGNED_REPLICAS] =
        json!(r#"{"field":"spec.scaleSettings.minReplicas","generation":7,"share":1,"total":2}"#);
    let by_karmada = json!([{
        "manager": "karmada-controller-manager", "operation": "Update",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]);
    deployment["metadata"]["managedFields"] = by_karmada;
    let (planes, controller) = start(deployment).await;
    assert_eq!(writes(&planes, &controller).await, [NUMBER]);
    assert_eq!(replicas(&planes), None);

    for manager in ["karmada-controller-manager", "kubectl"] {
        change(&planes, |it| {
            it["spec"]["replicas"] = json!(3);
            it["metadata"]["managedFields"][0]["manager"] = json!(manager);
        })
        .await;
        assert_eq!(writes(&planes, &controller).await, [""; 0], "{manager}");
        assert_eq!(replicas(&planes), Some(3), "{manager}");
    }

    // An autoscaler sets the number again.
    change(&planes, |it| {
        it["spec"]["scaleSettings"] = scaled()["spec"]["scaleSettings"].clone();
        it["spec"].as_object_mut().unwrap().remove("replicas");
    })
    .await;
    assert_eq!(writes(&planes, &controller).await, [CREATE, NUMBER]);
    let deployment: WorkloadDeployment = planes.cell.get(HUB_NAMESPACE, "web").unwrap();
    assert!(!deployment.annotations().contains_key(CLEARED_REPLICAS));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_autoscaler_is_made_again() {
    let (planes, controller) = start(scaled()).await;
    writes(&planes, &controller).await;
    planes
        .cell
        .remove::<HorizontalPodAutoscaler>(HUB_NAMESPACE, "web");
    settle().await;
    assert_eq!(writes(&planes, &controller).await, [CREATE]);
    assert_eq!(replicas(&planes), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_autoscaler_stays_as_it_is() {
    let (planes, controller) = start(scaled()).await;
    planes.cell.put(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": HUB_NAMESPACE, "name": "web"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "WorkloadDeployment", "name": "web"}},
    }));
    settle().await;
    assert_eq!(writes(&planes, &controller).await, [""; 0]);
    assert_eq!(replicas(&planes), None);
}

#[tokio::test(start_paused = true)]
async fn a_cell_without_autoscalers_is_left_alone() {
    let (planes, controller) = start(scaled()).await;
    planes.cell.stop_serving::<HorizontalPodAutoscaler>();
    planes.cell.end_watches();
    let mut state = planes.caches.autoscalers.sync_state();
    state.wait_for(|state| !state.is_current()).await.unwrap();
    let reconciled = reconcile(&controller, object_key("web")).await;
    assert!(reconciled.unwrap().is_ok());
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}
