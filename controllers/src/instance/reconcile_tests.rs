//! Tests of the instance controller, with an in-memory API server of a cell.

use api::Instance;
use apiserver::{Fault, objects};

use super::*;
use crate::fixtures::instance;
use crate::fixtures::servers::{
    CellPlanes, HUB_NAMESPACE, converge, object_key, reconcile, settle, take_writes,
};

async fn start() -> (CellPlanes, ReadinessController) {
    let mut instance = json!(instance(HUB_NAMESPACE, "web-0"));
    instance["status"] = json!({"conditions": [
        objects::condition("Programmed", "True"),
        objects::condition("Running", "True"),
    ]});
    let planes = CellPlanes::start(vec![instance], Vec::new()).await;
    let controller = ReadinessController {
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(ReadinessController::NAME, &planes.metrics),
        lifecycle: planes.lifecycle.clone(),
    };
    (planes, controller)
}

fn conditions(planes: &CellPlanes) -> Vec<String> {
    let instance = planes.cell.get::<Instance>(HUB_NAMESPACE, "web-0").unwrap();
    let conditions = instance.status.unwrap().conditions;
    conditions.iter().map(|it| it.type_.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn readiness_is_written_beside_the_conditions_of_others_and_then_nothing() {
    let (planes, controller) = start().await;
    let writes = converge(&controller, || object_key("web-0"), &planes.servers()).await;
    assert_eq!(writes, ["patch instances/status ns-1/web-0"]);
    let found = conditions(&planes);
    for type_ in ["Programmed", "Ready", "Running"] {
        assert!(found.contains(&type_.to_owned()), "{found:?}");
    }
    assert_eq!(planes.hub.requests(), 0, "the hub has no part in it");
}

#[tokio::test(start_paused = true)]
async fn a_cell_that_refuses_hangs_or_has_another_version_changes_nothing() {
    let (planes, controller) = start().await;
    planes.cell.fail(Fault::refuse(500).on_writes().times(1));
    let error = reconcile(&controller, object_key("web-0"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::Api { .. }), "{error}");
    planes.cell.fail(Fault::hang().on_writes());
    assert!(reconcile(&controller, object_key("web-0")).await.is_none());
    planes.cell.heal();
    // The controller has not observed the last write of the provider.
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, "web-0", |instance| {
            instance["status"]["conditions"][1]["status"] = json!("False");
        });
    let key = object_key("web-0");
    let context = crate::fixtures::servers::context();
    let error = controller.reconcile(&context, key).await.unwrap_err();
    let ReconcileError::Api { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(source.as_ref(), kube::Error::Api(status) if status.is_conflict()),
        "{error}"
    );
    assert_eq!(conditions(&planes), ["Programmed", "Running"]);
    settle().await;
    take_writes(&planes.servers());
}
