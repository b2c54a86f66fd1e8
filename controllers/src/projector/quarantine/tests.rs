use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use multicluster::cache::Reflector;

use super::*;
use crate::fixtures::{instance, now};
use crate::projector::plan::verdict::of_hub;

type SentRequests = Arc<Mutex<Vec<String>>>;

fn context() -> ReconcileContext {
    ReconcileContext::new(now, None)
}

/// A quarantine on a hub that answers every request like this, and the requests that it got.
fn on_hub(code: StatusCode, answer: Value) -> (Quarantine, SentRequests) {
    let asked = SentRequests::default();
    let service = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Body>| {
            let asks = format!("{} {}", request.method(), request.uri().path());
            asked.lock().unwrap().push(asks);
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = code;
            async move { Ok::<_, Infallible>(response) }
        }
    });
    let (client, metrics) = (Client::new(service, "default"), Metrics::default());
    let quarantine = Quarantine {
        events: Events::new(client.clone(), "projector"),
        client,
        instances: Reflector::new("hub", &metrics).cache(),
        writer: Writer::new("projector", &metrics),
        quarantined: Quarantined::new(&metrics),
    };
    (quarantine, asked)
}

fn refusing() -> (Quarantine, SentRequests) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "instances is forbidden", "reason": "Forbidden", "code": 403,
    });
    on_hub(StatusCode::FORBIDDEN, status)
}

/// The verdict on an Instance in a namespace without labels.
fn verdict(instance: &Instance) -> Verdict {
    of_hub(&ObjectMeta::default(), &instance.metadata).unwrap()
}

fn count(asked: &SentRequests) -> usize {
    asked.lock().unwrap().len()
}

#[tokio::test]
async fn refused_annotations_are_not_retried_until_the_verdict_changes() {
    let (quarantine, asked) = refusing();
    let mut instance = instance("ns-1", "web-0");
    for _ in 0..3 {
        let verdict = verdict(&instance);
        quarantine
            .hold(&context(), &instance, &verdict)
            .await
            .unwrap();
    }
    let patch = "PATCH /apis/compute.datumapis.com/v1alpha/namespaces/ns-1/instances/web-0";
    assert_eq!(*asked.lock().unwrap(), [patch]);
    let held = quarantine.quarantined.states()["web-0-uid"].held.is_some();
    assert!(held, "it is counted all the same");
    instance
        .labels_mut()
        .insert(api::labels::UPSTREAM_NAMESPACE.into(), "other".into());
    let verdict = verdict(&instance);
    quarantine
        .hold(&context(), &instance, &verdict)
        .await
        .unwrap();
    assert_eq!(count(&asked), 2);
    quarantine.release(&context(), &instance).await.unwrap();
    assert_eq!(count(&asked), 2, "nothing of it is said there");
    assert!(quarantine.quarantined.states()["web-0-uid"].held.is_none());
}

#[tokio::test]
async fn an_existing_verdict_is_counted_and_not_written() {
    let (quarantine, asked) = refusing();
    let mut instance = instance("ns-1", "web-0");
    let verdict = verdict(&instance);
    instance.metadata.annotations = Some(verdict.annotations(now()));
    quarantine
        .hold(&context(), &instance, &verdict)
        .await
        .unwrap();
    assert_eq!(count(&asked), 0);
    assert!(quarantine.quarantined.states()["web-0-uid"].held.is_some());
    quarantine.forget(&instance);
    assert!(quarantine.quarantined.states().is_empty());
}

#[tokio::test]
async fn annotations_are_retried_when_the_hub_does_not_answer() {
    let (quarantine, asked) = on_hub(StatusCode::SERVICE_UNAVAILABLE, json!({}));
    let instance = instance("ns-1", "web-0");
    let verdict = verdict(&instance);
    for _ in 0..2 {
        let held = quarantine.hold(&context(), &instance, &verdict).await;
        assert!(held.is_err());
    }
    assert_eq!(count(&asked), 2);
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
