//! Tests of Events about customizations. The hub is an in-memory API server.

use apiserver::{ApiServer, Fault, objects};
use multicluster::cache::ListLimiter;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::servers::{reconcile, settle, take_writes};

fn customization(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": api::API_VERSION, "kind": kind}},
    })
}

async fn start() -> (ApiServer, CustomizationController) {
    let hub = ApiServer::new();
    hub.put(objects::namespace("default", "1"));
    hub.put(customization("shadows", "Instance"));
    hub.put(customization("harmless", "Workload"));
    let client = hub.client();
    let reflector = Reflector::new("hub", &Metrics::default());
    let controller = CustomizationController {
        cache: reflector.cache(),
        events: Events::new(client.clone(), CustomizationController::NAME),
    };
    tokio::spawn(reflector.run(client, ListLimiter::default()));
    settle().await;
    take_writes(&[&hub]);
    (hub, controller)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: name.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_published_only_for_a_customization_of_our_kinds() {
    let (hub, controller) = start().await;
    for name in ["harmless", "absent"] {
        reconcile(&controller, key(name)).await.unwrap().unwrap();
    }
    assert_eq!(take_writes(&[&hub]), [""; 0]);
    reconcile(&controller, key("shadows"))
        .await
        .unwrap()
        .unwrap();
    let writes = take_writes(&[&hub]);
    assert!(
        writes.len() == 1 && writes[0].starts_with("create events default/shadows"),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_the_event_is_no_error() {
    let (hub, controller) = start().await;
    hub.fail(Fault::refuse(403).on_writes());
    reconcile(&controller, key("shadows"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&[&hub]).len(), 1);
}
