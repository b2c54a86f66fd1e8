//! Tests of Instances that are replaced when their ConfigMaps and Secrets change.

use api::annotations::{
    REFERENCED_DATA_ERROR, REFERENCED_DATA_VERSIONS, ROLL_ON_DATA_CHANGE, SOURCE_VERSION,
};
use api::labels;
use k8s_openapi::api::core::v1::Secret;

use super::*;

const DELETE: &str = "delete instances ns-1/web-0";
const RECORD: &str = "patch instances ns-1/web-0";

fn versions(number: u64) -> String {
    json!({"template": "v1-p", "sources": {"Secret/keys": format!("u/{number}")}}).to_string()
}

async fn mean(planes: &CellPlanes, number: u64) {
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            let metadata = &mut deployment["metadata"];
            metadata["annotations"][REFERENCED_DATA_VERSIONS] = json!(versions(number));
        });
    settle().await;
}

/// Makes the companion in the cell that of this version.
async fn propagate(planes: &CellPlanes, number: u64) {
    planes.cell.put(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "keys", "namespace": HUB_NAMESPACE, "labels": {labels::REFERENCED_DATA: "true"},
            "annotations": {SOURCE_VERSION: format!("u/{number}")},
        },
    }));
    settle().await;
}

/// Returns the writes of one reconciliation, and whether it succeeds.
async fn writes(planes: &CellPlanes, controller: &mut DeploymentController) -> (Vec<String>, bool) {
    // An answer about a companion is used for a moment, and the clock stands still.
    controller.companions = CellCompanions::default();
    let reconciled = reconcile(controller, object_key("web")).await.unwrap();
    settle().await;
    (take_writes(&planes.servers()), reconciled.is_ok())
}

/// Starts with an Instance that runs with version 5 of its Secret.
async fn start_running(gates: &[Gate]) -> (CellPlanes, DeploymentController) {
    let (planes, controller) = start_with(gates).await;
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            let template = &mut deployment["spec"]["template"];
            template["metadata"]["annotations"] = json!({ROLL_ON_DATA_CHANGE: "true"});
            template["spec"]["runtime"]["sandbox"]["containers"][0]["envFrom"] =
                json!([{"secretRef": {"name": "keys"}}]);
        });
    mean(&planes, 5).await;
    propagate(&planes, 5).await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["spec"]["controller"]["schedulingGates"] = json!([]);
            instance["status"] = running();
        });
    settle().await;
    converge(&controller, || object_key("web"), &planes.servers()).await;
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let record = instance.annotations().get(REFERENCED_DATA_VERSIONS);
    assert_eq!(record, (!gates.is_empty()).then(|| versions(5)).as_ref());
    (planes, controller)
}

/// I-33: the new Instance could not start.
#[tokio::test(start_paused = true)]
async fn an_instance_is_not_replaced_before_the_cell_has_the_changed_data() {
    let (planes, mut controller) = start_running(&[gate::REFERENCED_DATA]).await;
    mean(&planes, 6).await;
    let (former, _) = writes(&planes, &mut controller).await;
    assert!(!former.contains(&DELETE.to_owned()), "{former:?}");
    let waits = || {
        let status = json!(deployment(&planes).unwrap().status);
        status.to_string().contains("Instance web-0 stays until")
    };
    assert!(waits());
    // Without the companion, or with a former one, the reconciliation is repeated.
    assert_eq!(writes(&planes, &mut controller).await, (Vec::new(), false));
    planes.cell.remove::<Secret>(HUB_NAMESPACE, "keys");
    settle().await;
    assert_eq!(writes(&planes, &mut controller).await, (Vec::new(), false));
    propagate(&planes, 6).await;
    let (replaced, _) = writes(&planes, &mut controller).await;
    assert!(replaced.contains(&DELETE.to_owned()), "{replaced:?}");
    writes(&planes, &mut controller).await;
    assert!(!waits());
}

/// A new Instance could not start while another source of the template is missing.
#[tokio::test(start_paused = true)]
async fn an_instance_is_not_replaced_while_its_data_cannot_be_determined() {
    let (planes, mut controller) = start_running(&[gate::REFERENCED_DATA]).await;
    let set = async |problem: Value| {
        planes
            .cell
            .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
                let annotations = &mut deployment["metadata"]["annotations"];
                annotations[REFERENCED_DATA_ERROR] = problem;
                let annotations = annotations.as_object_mut().unwrap();
                annotations.retain(|_, value| !value.is_null());
            });
        settle().await;
    };
    let problem = json!({"reason": "SourceNotFound", "message": "m"});
    set(json!(problem.to_string())).await;
    mean(&planes, 6).await;
    propagate(&planes, 6).await;
    let (all, _) = writes(&planes, &mut controller).await;
    assert!(!all.contains(&DELETE.to_owned()), "{all:?}");
    set(Value::Null).await;
    let (all, _) = writes(&planes, &mut controller).await;
    assert!(all.contains(&DELETE.to_owned()), "{all:?}");
}

/// Without the gate, a new Instance could start with the former data.
#[tokio::test(start_paused = true)]
async fn changed_data_replace_nothing_in_a_cell_without_the_gate() {
    let (planes, controller) = start_running(&[]).await;
    propagate(&planes, 6).await;
    mean(&planes, 6).await;
    let all = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(!all.contains(&DELETE.to_owned()), "{all:?}");
    let status = deployment(&planes).unwrap().status.unwrap();
    assert_eq!(status.updated_replicas, Some(1));
}

/// The API server has a later version than the cache. Nobody has looked for it in the cell.
#[tokio::test(start_paused = true)]
async fn a_surplus_instance_has_no_other_one_replaced_before_its_data_are_there() {
    let (planes, mut controller) = start_running(&[gate::REFERENCED_DATA]).await;
    let mut surplus = json!(planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap());
    surplus["metadata"]["name"] = json!("web-7");
    surplus["metadata"]["uid"] = json!("surplus");
    planes.cell.put(surplus);
    settle().await;
    // The cache does not have this yet.
    planes
        .cell
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |deployment| {
            let metadata = &mut deployment["metadata"];
            metadata["annotations"][REFERENCED_DATA_VERSIONS] = json!(versions(6));
        });
    let (all, _) = writes(&planes, &mut controller).await;
    assert!(!all.contains(&DELETE.to_owned()), "{all:?}");
    assert!(
        all.contains(&"delete instances ns-1/web-7".to_owned()),
        "{all:?}"
    );
}

/// The versions of a project that was restored are earlier ones. Its later changes must be seen.
#[tokio::test(start_paused = true)]
async fn after_a_restore_of_the_project_changed_data_replace_the_instances_again() {
    let (planes, mut controller) = start_running(&[gate::REFERENCED_DATA]).await;
    for number in [3, 4] {
        propagate(&planes, number).await;
        mean(&planes, number).await;
        let expected = if number == 3 { RECORD } else { DELETE };
        let (all, _) = writes(&planes, &mut controller).await;
        assert!(all.contains(&expected.to_owned()), "{number}: {all:?}");
    }
}

/// An Instance that waits for its data has not started.
#[tokio::test(start_paused = true)]
async fn an_instance_with_a_closed_gate_gets_the_changed_versions() {
    let (planes, controller) = start_running(&[gate::REFERENCED_DATA]).await;
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["spec"]["controller"]["schedulingGates"] = json!([{"name": "ReferencedData"}]);
            instance["status"] = json!({});
        });
    mean(&planes, 6).await;
    let all = converge(&controller, || object_key("web"), &planes.servers()).await;
    assert!(
        all.contains(&RECORD.to_owned()) && !all.contains(&DELETE.to_owned()),
        "{all:?}"
    );
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    assert_eq!(
        instance.annotations()[REFERENCED_DATA_VERSIONS],
        versions(6)
    );
}
