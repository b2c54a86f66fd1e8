//! Tests of a hub that has another version of the CRD of Instances.

use api::condition;
use api::instance::{COPIED_TO_HUB, PROGRAMMED, READY};
use api::reasons::copied_to_hub::HUB_REFUSED;

use super::*;

/// Sets the condition `Programmed` in the cell, and reconciles everything. Returns the writes to the hub.
async fn report(planes: &CellPlanes, writeback: &InstanceWriteback, status: &str) -> Vec<String> {
    let programmed = objects::condition(PROGRAMMED, status);
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["status"]["conditions"] = json!([programmed]);
        });
    settle().await;
    let readiness = ReadinessController {
        cell: Arc::clone(&planes.caches),
        writer: Writer::new(ReadinessController::NAME, &planes.metrics),
        lifecycle: planes.lifecycle.clone(),
    };
    converge(&readiness, || object_key(NAME), &planes.servers()).await;
    converge(writeback, || object_key(NAME), &planes.servers()).await
}

/// Returns the status of the condition `Programmed` of the copy, and the generation of its `Ready`.
fn shown(planes: &CellPlanes) -> (bool, Option<i64>) {
    let conditions = on_hub(planes).unwrap().status.unwrap().conditions;
    let ready = condition::find(&conditions, READY).unwrap();
    let programmed = condition::is_true(&conditions, PROGRAMMED);
    (programmed, ready.observed_generation)
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_adds_a_default_gets_the_status() {
    let (planes, writeback) = start().await;
    planes
        .hub
        .amend::<Instance>(|copy| copy["spec"]["later"] = json!("default"));
    let writes = converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert_eq!(writes.len(), 2, "{writes:?}");
    for status in ["True", "False"] {
        let writes = report(&planes, &writeback, status).await;
        assert_eq!(writes, ["apply instances/status ns-1/web-0"]);
        let generation = on_hub(&planes).unwrap().metadata.generation;
        assert_eq!(shown(&planes), (status == "True", generation));
    }
    reconcile(&writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_prunes_a_field_gets_the_status() {
    let (planes, writeback) = start().await;
    planes.hub.amend::<Instance>(|copy| {
        copy["spec"].as_object_mut().unwrap().remove("later");
    });
    planes
        .cell
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["spec"]["later"] = json!("default");
        });
    settle().await;
    for status in ["True", "False"] {
        report(&planes, &writeback, status).await;
        // The hub does not have the spec, so its generation is not that of the Instance.
        assert_eq!(shown(&planes), (status == "True", None));
    }
    let error = reconcile(&writeback, object_key(NAME)).await.unwrap();
    let error = error.unwrap_err();
    let is_reported = matches!(error, ReconcileError::DoesNotStay { .. });
    assert!(is_reported, "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    let conditions = in_cell(&planes).unwrap().status.unwrap().conditions;
    let condition = condition::find(&conditions, COPIED_TO_HUB).unwrap();
    assert_eq!(condition.reason, HUB_REFUSED);
    assert!(condition.message.contains("not stored as it was written"));
}
