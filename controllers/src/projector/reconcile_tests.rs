//! Tests of the projector, with in-memory API servers.

use api::{WorkloadDeployment, labels};
use apiserver::{Fault, Verb, objects};
use serde_json::Value;

use super::*;
use crate::fixtures::instance;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, converge, copy, hub_namespace, instance_key, reconcile, recorded,
    settle, spoil_namespace, take_writes,
};
use crate::runtime::events::Events;

mod cells_below;
mod cut_off;
mod other_hub;
mod stale_cache;

const NAME: &str = "web-0";

async fn start() -> (FakePlanes, Projector) {
    let mut instance = json!(instance(HUB_NAMESPACE, NAME));
    instance["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_NAME: "web"});
    instance["status"] = json!({"conditions": [objects::condition("Ready", "True")]});
    let mut copy = copy("web");
    copy["status"] = json!({
        "currentReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1, "replicas": 1,
    });
    let on_hub = vec![hub_namespace(), copy, instance];
    let planes = FakePlanes::start(vec![recorded("web")], on_hub).await;
    let client = planes.hub.client();
    let projector = Projector {
        projects: Arc::clone(&planes.projects),
        hub: Arc::clone(&planes.hub_caches),
        writer: planes.writer::<Projector>(),
        quarantine: Quarantine {
            events: Events::new(client.clone(), Projector::NAME),
            client,
            instances: planes.hub_caches.instances.clone(),
            writer: planes.writer::<Projector>(),
            quarantined: Quarantined::new(&planes.metrics),
        },
    };
    (planes, projector)
}

fn projection(planes: &FakePlanes) -> Option<Instance> {
    planes.project.get("default", NAME)
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_projected_with_its_status_and_then_left_alone() {
    let (planes, projector) = start().await;
    let writes = converge(&projector, || instance_key(NAME), &planes.servers()).await;
    let expected = [
        "create instances default/web-0",
        "apply instances/status default/web-0",
    ];
    assert_eq!(writes, expected);
    let owners = projection(&planes)
        .unwrap()
        .metadata
        .owner_references
        .unwrap();
    assert_eq!(owners[0].uid, "web-uid");
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// The connection of the project leads to a cell.
#[tokio::test(start_paused = true)]
async fn the_instances_of_a_cell_are_no_projections() {
    let (planes, projector) = start().await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes.hub.remove::<Namespace>("", HUB_NAMESPACE);
    planes
        .project
        .modify::<Namespace>("", "default", |namespace| {
            namespace["metadata"]["labels"] = hub_namespace()["metadata"]["labels"].clone();
        });
    planes.project.put(json!(instance("default", NAME)));
    settle().await;
    take_writes(&planes.servers());
    let result = reconcile(&projector, instance_key(NAME)).await.unwrap();
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("must not lead to a hub or a cell"),
        "{error}"
    );
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_namespace_does_not_stop_its_projections() {
    let (planes, projector) = start().await;
    spoil_namespace(&planes.project);
    settle().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    assert!(projection(&planes).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_refuses_or_hangs_is_an_error() {
    let (planes, projector) = start().await;
    planes.project.fail(Fault::refuse(403).on_writes().times(1));
    let error = reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::Api { .. }), "{error}");
    planes.project.fail(Fault::hang().on_writes());
    assert!(reconcile(&projector, instance_key(NAME)).await.is_none());
    assert!(projection(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_projection_is_deleted_only_when_the_hub_says_that_the_instance_is_gone() {
    let (planes, projector) = start().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(404),
        Fault::refuse(503),
        Fault::disconnect(),
    ] {
        planes.hub.fail(fault.on(&[Verb::Get]));
        reconcile(&projector, instance_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(projection(&planes).is_some());
        planes.hub.heal();
    }
    planes.hub.fail(Fault::hang().on(&[Verb::Get]));
    assert!(reconcile(&projector, instance_key(NAME)).await.is_none());
    assert!(projection(&planes).is_some());
    planes.hub.heal();
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(projection(&planes).is_none());
}

/// A copy of the Go manager names neither its cell nor its WorkloadDeployment, and its projection has no owner. The
/// WorkloadDeployment of the project may be gone or not.
#[tokio::test(start_paused = true)]
async fn a_projection_of_the_go_manager_ends_with_its_quarantined_copy() {
    for has_deployment in [true, false] {
        let (planes, projector) = start().await;
        let upstream = hub_namespace()["metadata"]["labels"].clone();
        let mut projection_of_go = json!(instance("default", NAME));
        projection_of_go["metadata"]["labels"] = upstream.clone();
        planes.project.put(projection_of_go);
        planes.hub.modify::<Instance>(HUB_NAMESPACE, NAME, |copy| {
            copy["metadata"]["labels"] = upstream;
        });
        if !has_deployment {
            planes
                .project
                .remove::<WorkloadDeployment>("default", "web");
        }
        settle().await;
        converge(&projector, || instance_key(NAME), &planes.servers()).await;
        assert!(projection(&planes).is_some());
        planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
        settle().await;
        converge(&projector, || instance_key(NAME), &planes.servers()).await;
        assert!(projection(&planes).is_none(), "{has_deployment}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_projection_has_the_fields_that_the_types_do_not_know() {
    let (planes, projector) = start().await;
    let mut spec = objects::later_template()["spec"].clone();
    spec["controller"] = json!({"templateHash": "v1-x", "later": 7});
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["spec"] = spec.clone();
        });
    settle().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    assert_eq!(json!(projection(&planes).unwrap().spec), spec);
}

#[tokio::test(start_paused = true)]
async fn a_projection_shows_that_its_cell_has_no_cluster() {
    let (planes, projector) = start().await;
    for (cell, expected) in [("gone", "CellUnreachable"), ("", "Because")] {
        planes
            .hub
            .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
                instance["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!(cell);
            });
        settle().await;
        converge(&projector, || instance_key(NAME), &planes.servers()).await;
        let status = projection(&planes).unwrap().status.unwrap();
        assert_eq!(status.conditions[0].reason, expected, "{status:?}");
    }
}

/// Changes the condition `Ready` on the hub, and returns the condition that the projection then has.
async fn report(planes: &FakePlanes, projector: &Projector, status: &str) -> api::Condition {
    let mut ready = objects::condition("Ready", status);
    ready["observedGeneration"] = json!(
        planes
            .hub
            .get::<Instance>(HUB_NAMESPACE, NAME)
            .unwrap()
            .metadata
            .generation
    );
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["status"]["conditions"] = json!([ready]);
        });
    settle().await;
    converge(projector, || instance_key(NAME), &planes.servers()).await;
    projection(planes)
        .unwrap()
        .status
        .unwrap()
        .conditions
        .remove(0)
}

/// A WorkloadDeployment that cannot be decoded must not freeze the projections of its Instances.
#[tokio::test(start_paused = true)]
async fn an_undecodable_deployment_stops_no_status_and_allows_no_deletion_without_proof() {
    let (planes, projector) = start().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    let spoil = |deployment: &mut Value| deployment["spec"]["template"] = json!(7);
    planes
        .project
        .modify::<WorkloadDeployment>("default", "web", spoil);
    settle().await;
    for status in ["False", "True"] {
        let ready = report(&planes, &projector, status).await;
        assert_eq!(ready.is_true(), status == "True");
    }
    // Without a status of the copy, the hub may be new or restored.
    planes
        .hub
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |copy| {
            copy.as_object_mut().unwrap().remove("status");
        });
    planes
        .project
        .modify::<Instance>("default", NAME, |projection| {
            projection["metadata"]["labels"][labels::INSTANCE_CITY_CODE] = json!("DFW");
        });
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    settle().await;
    let reconciled = reconcile(&projector, instance_key(NAME)).await.unwrap();
    assert!(reconciled.is_err());
    assert!(projection(&planes).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_adds_a_default_gets_the_status() {
    let (planes, projector) = start().await;
    planes
        .project
        .amend::<Instance>(|projection| projection["spec"]["later"] = json!("default"));
    let writes = converge(&projector, || instance_key(NAME), &planes.servers()).await;
    assert_eq!(writes.len(), 2, "{writes:?}");
    for status in ["True", "False"] {
        let ready = report(&planes, &projector, status).await;
        let generation = projection(&planes).unwrap().metadata.generation;
        let expected = (status == "True", generation);
        assert_eq!((ready.is_true(), ready.observed_generation), expected);
    }
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_project_that_prunes_a_field_gets_the_status() {
    let (planes, projector) = start().await;
    planes.project.amend::<Instance>(|projection| {
        projection["spec"].as_object_mut().unwrap().remove("later");
    });
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["spec"]["later"] = json!("default");
        });
    settle().await;
    for status in ["True", "False"] {
        let ready = report(&planes, &projector, status).await;
        let expected = (status == "True", None);
        assert_eq!((ready.is_true(), ready.observed_generation), expected);
    }
    let error = reconcile(&projector, instance_key(NAME)).await.unwrap();
    let error = error.unwrap_err();
    let is_reported = matches!(error, ReconcileError::DoesNotStay { .. });
    assert!(is_reported, "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}
