//! Tests of the namespace controller, with in-memory API servers.

use apiserver::{ApiServer, Fault, Verb};
use serde_json::{Value, json};

use super::*;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, context, exchange_hub, hub_key, hub_namespace, reconcile, recorded,
    settle, spoil_namespace, take_writes,
};
use crate::fixtures::{instance, of_hub};

/// Starts with a hub namespace. The namespace in its project no longer exists.
async fn start(on_hub: Vec<Value>) -> (FakePlanes, NamespaceController) {
    let on_hub = [vec![hub_namespace()], on_hub].concat();
    let planes = FakePlanes::start(Vec::new(), on_hub).await;
    let controller = NamespaceController::new(
        Arc::clone(&planes.projects),
        Arc::clone(&planes.hub_caches),
        planes.hub_in_use.clone(),
        planes.writer::<NamespaceController>(),
    );
    (planes, controller)
}

async fn end_upstream(planes: &FakePlanes) {
    planes
        .project
        .remove::<k8s_openapi::api::core::v1::Namespace>("", "default");
    settle().await;
}

fn is_there(hub: &ApiServer) -> bool {
    hub.get::<Namespace>("", HUB_NAMESPACE).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_hub_namespace_stays_while_the_project_has_its_namespace() {
    let (planes, controller) = start(Vec::new()).await;
    for is_decodable in [true, false] {
        if !is_decodable {
            spoil_namespace(&planes.project);
            settle().await;
        }
        reconcile(&controller, hub_key()).await.unwrap().unwrap();
        assert_eq!((planes.hub.requests(), planes.project.requests()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_hub_namespace_is_deleted_with_its_version_as_precondition() {
    let (planes, controller) = start(Vec::new()).await;
    end_upstream(&planes).await;
    let version = planes
        .hub
        .get::<Namespace>("", HUB_NAMESPACE)
        .unwrap()
        .metadata
        .resource_version;
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert!(!is_there(&planes.hub));
    let log = planes.hub.log();
    let delete = log
        .iter()
        .find(|request| request.verb == Verb::Delete)
        .unwrap();
    assert_eq!(
        delete.body["preconditions"]["resourceVersion"],
        json!(version)
    );
    assert_eq!(delete.body["preconditions"]["uid"], "hub-1");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_anyone_keeps_a_hub_namespace() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": HUB_NAMESPACE}});
    for left in [secret, json!(instance(HUB_NAMESPACE, "web-0"))] {
        let (planes, controller) = start(vec![left]).await;
        end_upstream(&planes).await;
        reconcile(&controller, hub_key()).await.unwrap().unwrap();
        assert!(is_there(&planes.hub));
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_every_namespace_keep_none() {
    let of_kubernetes = [("ConfigMap", ROOT_CA), ("ServiceAccount", SERVICE_ACCOUNT)].map(|(kind, name)| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": HUB_NAMESPACE}})
    });
    let (planes, controller) = start(of_kubernetes.to_vec()).await;
    end_upstream(&planes).await;
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert!(!is_there(&planes.hub));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_say_so_keeps_a_hub_namespace() {
    let (planes, controller) = start(Vec::new()).await;
    end_upstream(&planes).await;
    for (verb, is_hub) in [(Verb::Get, false), (Verb::List, true)] {
        let server = planes.servers()[usize::from(is_hub)];
        for fault in [
            Fault::answer(404, "404 page not found\n"),
            Fault::refuse(403),
            Fault::refuse(500),
            Fault::disconnect(),
        ] {
            server.fail(fault.on(&[verb]));
            let _ = reconcile(&controller, hub_key()).await.unwrap();
            assert!(is_there(&planes.hub));
            server.heal();
        }
        server.fail(Fault::hang().on(&[verb]));
        assert!(reconcile(&controller, hub_key()).await.is_none());
        assert!(is_there(&planes.hub));
        server.heal();
    }
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert!(!is_there(&planes.hub));
}

/// I-12: the hub in use is not the one that the project or the hub namespace has recorded.
#[tokio::test(start_paused = true)]
async fn another_hub_loses_no_namespace() {
    let (planes, controller) = start(Vec::new()).await;
    end_upstream(&planes).await;
    let held = async || {
        settle().await;
        let error = reconcile(&controller, hub_key()).await.unwrap();
        let error = error.expect_err("held");
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held && is_there(&planes.hub), "{error}");
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
    };
    // A WorkloadDeployment of another namespace of the project has recorded another hub.
    let mut deployment = of_hub(recorded("web"), Some("another"));
    deployment["metadata"]["namespace"] = json!("other");
    planes.project.put(deployment.clone());
    held().await;
    planes.project.put(of_hub(deployment, None));
    planes.hub.put(of_hub(hub_namespace(), Some("another")));
    held().await;
    planes.hub.put(hub_namespace());
    settle().await;
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert!(!is_there(&planes.hub));
}

/// The address of the hub leads to another hub, whose lists are empty. The watch has not reported it yet.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_exchanged_behind_its_address_proves_no_empty_namespace() {
    let (planes, controller) = start(Vec::new()).await;
    end_upstream(&planes).await;
    exchange_hub(&planes.hub);
    let error = controller.reconcile(&context(), hub_key()).await;
    let is_held = matches!(error, Err(ReconcileError::Contradiction { .. }));
    assert!(is_held, "{:?}", error.map(drop));
    assert!(is_there(&planes.hub));
}
