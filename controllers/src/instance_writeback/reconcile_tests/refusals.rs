//! Tests of a hub that refuses a copy or its status.

use std::collections::BTreeSet;

use api::condition::{self, Condition};
use api::instance::COPIED_TO_HUB;
use api::reasons::copied_to_hub::{HUB_DEPLOYMENT_MISSING, HUB_REFUSED};
use apiserver::ObjectPart;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::core::Status;
use serde_json::Value;

use super::*;
use crate::fixtures::now;

/// The answer of an API server that refuses a write.
fn answer(code: u16, reason: &str, message: &str) -> Fault {
    let status = Status::failure(message, reason).with_code(code);
    Fault::answer(code, json!(status).to_string()).on_writes()
}

/// Returns the refusals. Each has a word of the message.
fn refusals() -> [(Fault, &'static str); 3] {
    [
        (answer(403, "Forbidden", "it is being audited"), "audited"),
        (answer(422, "Invalid", "spec is odd"), "odd"),
        (Fault::webhook_down().on_writes(), "failed calling webhook"),
    ]
}

fn shown(planes: &CellPlanes) -> Option<Condition> {
    let status = in_cell(planes)?.status?;
    condition::find(&status.conditions, COPIED_TO_HUB).cloned()
}

/// Reconciles, and expects an error. Returns the writes to the cell.
async fn fail(planes: &CellPlanes, writeback: &InstanceWriteback) -> Vec<String> {
    reconcile(writeback, object_key(NAME))
        .await
        .unwrap()
        .unwrap_err();
    take_writes(&[&planes.cell])
}

/// Returns the reasons of the events on the Instance.
fn events(planes: &CellPlanes) -> BTreeSet<String> {
    let events = KindId::of::<Event>();
    let keys = planes.cell.keys(events).into_iter();
    let events = keys.filter_map(|key| planes.cell.stored(events, &key));
    let reason = |event: Value| event["reason"].as_str().unwrap_or_default().to_owned();
    events.map(|event| reason(event.value())).collect()
}

fn assert_refused(planes: &CellPlanes, word: &str) {
    let condition = shown(planes).expect("refused");
    assert!(condition.is_false() && condition.reason == HUB_REFUSED);
    assert!(condition.message.contains(word), "{condition:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_copy_shows_in_the_cell() {
    for (fault, word) in refusals() {
        let (planes, writeback) = start().await;
        planes.hub.fail(fault);
        let writes = fail(&planes, &writeback).await;
        assert_eq!(writes[0], "patch instances/status ns-1/web-0");
        assert!(on_hub(&planes).is_none());
        assert_refused(&planes, word);
        assert_eq!(events(&planes), [HUB_REFUSED].map(str::to_owned).into());
        assert_eq!(fail(&planes, &writeback).await, [""; 0]);
        planes.hub.heal();
        converge(&writeback, || object_key(NAME), &planes.servers()).await;
        assert!(on_hub(&planes).is_some() && shown(&planes).is_none());
        assert_eq!(
            events(&planes),
            [HUB_REFUSED, COPIED_TO_HUB].map(str::to_owned).into()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_being_deleted_does_not_count_as_copied() {
    let (planes, writeback) = start().await;
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    let copy = on_hub(&planes).unwrap();
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes
        .hub
        .fail(answer(403, "Forbidden", "it is being audited"));
    fail(&planes, &writeback).await;
    planes.hub.heal();
    let mut terminating = json!(copy);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:59:00Z");
    planes.hub.put(terminating);
    let result = reconcile(&writeback, object_key(NAME)).await.unwrap();
    result.unwrap();
    assert_refused(&planes, "audited");
    assert_eq!(events(&planes), [HUB_REFUSED].map(str::to_owned).into());
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_some() && shown(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_of_a_copy_shows_in_the_cell() {
    for (fault, word) in refusals() {
        let (planes, writeback) = start().await;
        planes.hub.fail(fault.part(ObjectPart::Status));
        fail(&planes, &writeback).await;
        assert!(on_hub(&planes).is_some());
        assert_refused(&planes, word);
        assert_eq!(fail(&planes, &writeback).await, [""; 0]);
        take_writes(&planes.servers());
        // Until `Ready` is current, the status is not written. This does not end the refusal.
        planes
            .cell
            .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
                let programmed = objects::condition("Programmed", "True");
                let conditions = instance["status"]["conditions"].as_array_mut();
                conditions.unwrap().push(programmed);
            });
        settle().await;
        reconcile(&writeback, object_key(NAME))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
        let readiness = ReadinessController {
            cell: Arc::clone(&planes.caches),
            writer: Writer::new(ReadinessController::NAME, &planes.metrics),
            lifecycle: planes.lifecycle.clone(),
        };
        converge(&readiness, || object_key(NAME), &planes.servers()).await;
        assert_eq!(fail(&planes, &writeback).await, [""; 0]);
        assert_refused(&planes, word);
        planes.hub.heal();
        converge(&writeback, || object_key(NAME), &planes.servers()).await;
        let copied = on_hub(&planes).unwrap().status.unwrap();
        assert!(condition::is_true(&copied.conditions, "Programmed"));
        assert!(shown(&planes).is_none());
        assert_eq!(
            events(&planes),
            [HUB_REFUSED, COPIED_TO_HUB].map(str::to_owned).into()
        );
    }
}

/// The hub refuses with another text each time. If each text were shown, each write of the status would cause the next.
#[tokio::test(start_paused = true)]
async fn a_text_that_changes_with_each_refusal_is_shown_once_a_minute() {
    fn later() -> Timestamp {
        now() + Duration::from_mins(2)
    }
    let (planes, writeback) = start().await;
    for (clock, begin) in [(now as fn() -> Timestamp, 0), (later, 5)] {
        let mut writes = Vec::new();
        for number in begin..begin + 5 {
            planes.hub.heal();
            let text = format!("refused, number {number}");
            planes.hub.fail(answer(422, "Invalid", &text));
            let context = ReconcileContext::new(clock, None);
            let refused = writeback.reconcile(&context, object_key(NAME)).await;
            assert!(refused.is_err());
            settle().await;
            writes.extend(take_writes(&[&planes.cell]));
        }
        writes.retain(|write| write.starts_with("patch instances/status"));
        assert_eq!(writes.len(), 1, "{writes:?}");
        assert_refused(&planes, &format!("number {begin}"));
    }
    assert_eq!(events(&planes), [HUB_REFUSED].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn an_instance_counts_as_copied_only_after_the_hub_has_its_copy() {
    let (planes, writeback) = start().await;
    let deployment = copy("web");
    planes
        .hub
        .remove::<api::WorkloadDeployment>(HUB_NAMESPACE, "web");
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    planes.hub.put(deployment);
    for code in [409, 429, 503] {
        planes.hub.fail(Fault::refuse(code).on_writes());
        assert_eq!(fail(&planes, &writeback).await, [""; 0]);
        planes.hub.heal();
        assert_eq!(shown(&planes).unwrap().reason, HUB_DEPLOYMENT_MISSING);
    }
    // Another error does not end a refusal.
    planes.hub.fail(answer(422, "Invalid", "spec is odd"));
    fail(&planes, &writeback).await;
    planes.hub.heal();
    planes.hub.fail(Fault::refuse(503).on_writes());
    assert_eq!(fail(&planes, &writeback).await, [""; 0]);
    assert_refused(&planes, "odd");
    planes.hub.heal();
    converge(&writeback, || object_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_some() && shown(&planes).is_none());
    let expected = [HUB_DEPLOYMENT_MISSING, HUB_REFUSED, COPIED_TO_HUB];
    assert_eq!(events(&planes), expected.map(str::to_owned).into());
}
