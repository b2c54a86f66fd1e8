use apiserver::{ApiServer, Fault};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::Reflector;

use super::*;
use crate::fixtures::{instance, now};
use crate::projector::plan::verdict::of_hub;

fn context() -> ReconcileContext {
    ReconcileContext::new(now, None)
}

/// Returns a quarantine and its hub, which has the Instance. Every request to this hub fails with `fault`.
fn on_hub(fault: Fault, instance: &Instance) -> (Quarantine, ApiServer) {
    let hub = ApiServer::new();
    hub.fail(fault);
    let (client, metrics) = (hub.client(), Metrics::default());
    let quarantine = Quarantine {
        events: Events::new(client.clone(), "projector"),
        client,
        instances: Reflector::new("hub", &metrics).cache(),
        writer: Writer::new("projector", &metrics),
        quarantined: Quarantined::new(&metrics),
    };
    quarantine.instances.observe_write(instance.clone());
    (quarantine, hub)
}

/// Returns the verdict on an Instance in a namespace without labels.
fn verdict(instance: &Instance) -> Verdict {
    of_hub(&ObjectMeta::default(), &instance.metadata).unwrap()
}

#[tokio::test]
async fn refused_annotations_are_not_retried_until_the_verdict_changes() {
    let mut instance = instance("ns-1", "web-0");
    let (quarantine, hub) = on_hub(Fault::refuse(403), &instance);
    for _ in 0..3 {
        let verdict = verdict(&instance);
        quarantine
            .hold(&context(), &instance, &verdict, || Ok(()))
            .await
            .unwrap();
    }
    let requests: Vec<_> = hub.log().iter().map(ToString::to_string).collect();
    assert_eq!(requests, ["apply instances ns-1/web-0"]);
    let held = quarantine.quarantined.states()["web-0-uid"].held.is_some();
    assert!(held, "the metric counts it");
    instance
        .labels_mut()
        .insert(api::labels::UPSTREAM_NAMESPACE.into(), "other".into());
    let verdict = verdict(&instance);
    quarantine
        .hold(&context(), &instance, &verdict, || Ok(()))
        .await
        .unwrap();
    assert_eq!(hub.requests(), 2);
    quarantine
        .release(&context(), &instance, || Ok(()))
        .await
        .unwrap();
    assert_eq!(hub.requests(), 2, "the hub has no verdict to remove");
    assert!(quarantine.quarantined.states()["web-0-uid"].held.is_none());
}

/// I-14: an Instance in quarantine is reported once.
#[tokio::test]
async fn an_existing_verdict_is_counted_and_not_written() {
    let mut instance = instance("ns-1", "web-0");
    let (quarantine, hub) = on_hub(Fault::refuse(403), &instance);
    let verdict = verdict(&instance);
    instance.metadata.annotations = Some(verdict.annotations(now()));
    quarantine
        .hold(&context(), &instance, &verdict, || Ok(()))
        .await
        .unwrap();
    assert_eq!(hub.requests(), 0);
    assert!(quarantine.quarantined.states()["web-0-uid"].held.is_some());
    quarantine.forget(&instance);
    assert!(quarantine.quarantined.states().is_empty());
}

#[tokio::test]
async fn annotations_are_retried_when_the_hub_does_not_answer() {
    let instance = instance("ns-1", "web-0");
    let (quarantine, hub) = on_hub(Fault::answer(503, "{}"), &instance);
    let verdict = verdict(&instance);
    for _ in 0..2 {
        let held = quarantine
            .hold(&context(), &instance, &verdict, || Ok(()))
            .await;
        assert!(held.is_err());
    }
    assert_eq!(hub.requests(), 2);
}

#[tokio::test]
async fn an_instance_that_is_gone_is_not_kept() {
    let instance = instance("ns-1", "web-0");
    let mut later = instance.clone();
    later.metadata.uid = Some("later".to_owned());
    let (quarantine, hub) = on_hub(Fault::refuse(403), &later);
    let verdict = verdict(&instance);
    quarantine
        .hold(&context(), &instance, &verdict, || Ok(()))
        .await
        .unwrap();
    quarantine.missed(&instance, now());
    assert!(quarantine.forget_if_gone(&instance));
    assert!(quarantine.quarantined.states().is_empty());
    assert_eq!(hub.requests(), 0);
}

#[test]
fn the_first_miss_of_a_deployment_counts() {
    let (first, later) = (Timestamp::UNIX_EPOCH, now());
    let quarantined = Quarantined::new(&Metrics::default());
    assert_eq!(quarantined.missed("1", first), first);
    assert_eq!(quarantined.missed("1", later), first);
    quarantined.release("1");
    assert_eq!(quarantined.missed("1", later), first);
    quarantined.forget("1");
    assert_eq!(quarantined.missed("1", later), later);
}
