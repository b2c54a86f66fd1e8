//! Tests of a hub that is not the recorded one, or that the cells have not written to yet.

use super::*;
use crate::fixtures::of_hub;
use crate::fixtures::servers::HUB_UID;

/// Changes the hub that the WorkloadDeployment has recorded.
async fn record(planes: &FakePlanes, uid: Option<&str>) {
    let change = |deployment: &mut Value| *deployment = of_hub(deployment.take(), uid);
    planes
        .project
        .modify::<WorkloadDeployment>("default", "web", change);
    settle().await;
}

/// Reconciles the projection. It must be held, and nothing may be written.
async fn held(planes: &FakePlanes, projector: &Projector) {
    let error = reconcile(projector, instance_key(NAME)).await.unwrap();
    let error = error.expect_err("held");
    let is_held = matches!(error, ReconcileError::Contradiction { .. });
    assert!(is_held, "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_hub_proves_nothing_about_a_projection() {
    let (planes, projector) = start().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    record(&planes, Some("another")).await;
    held(&planes, &projector).await;
    assert!(projection(&planes).is_some());
    // The record is from before hubs were recorded, and this hub does not have the namespace.
    record(&planes, None).await;
    let namespace = planes.hub.get::<Namespace>("", HUB_NAMESPACE).unwrap();
    planes.hub.remove::<Namespace>("", HUB_NAMESPACE);
    settle().await;
    held(&planes, &projector).await;
    assert!(projection(&planes).is_some());
    planes.hub.put(json!(namespace));
    settle().await;
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(projection(&planes).is_none());
}

/// I-12: the hub in use has an old Instance of the same name.
#[tokio::test(start_paused = true)]
async fn another_hub_changes_no_projection() {
    let (planes, projector) = start().await;
    record(&planes, Some("another")).await;
    held(&planes, &projector).await;
    record(&planes, Some(HUB_UID)).await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    record(&planes, Some("another")).await;
    // The projection is as the hub wants it, so nothing is to be written.
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["status"]["conditions"][0]["status"] = json!("False");
        });
    settle().await;
    held(&planes, &projector).await;
    let conditions = projection(&planes).unwrap().status.unwrap().conditions;
    assert!(conditions[0].is_true());
}

/// Reconciles the projection. It must wait, and nothing may be written.
async fn waits(planes: &FakePlanes, projector: &Projector) {
    settle().await;
    let error = reconcile(projector, instance_key(NAME)).await.unwrap();
    let error = error.expect_err("it waits");
    let is_waiting = matches!(error, ReconcileError::NotYet { .. });
    assert!(is_waiting && projection(planes).is_some(), "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

fn report_replicas(planes: &FakePlanes, cell: &str, replicas: i32) {
    planes
        .hub
        .modify::<WorkloadDeployment>(HUB_NAMESPACE, "web", |copy| {
            copy["status"] = json!({
                "currentReplicas": 0, "desiredReplicas": 1, "readyReplicas": 0,
                "replicas": replicas, "reportingCell": cell,
            });
        });
}

/// I-12: a new hub does not have an Instance until the cell has written to the new hub.
#[tokio::test(start_paused = true)]
async fn a_hub_that_replaces_another_proves_nothing_before_the_cell_has_written_to_it() {
    let (planes, projector) = start().await;
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["labels"][labels::SOURCE_CLUSTER] = json!("dfw1");
        });
    settle().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    let instance = planes.hub.get::<Instance>(HUB_NAMESPACE, NAME).unwrap();
    // The new hub.
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes
        .hub
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
    planes
        .hub
        .modify::<Namespace>("", api::DEFAULT_NAMESPACE, |default| {
            let replaces = json!({api::annotations::REPLACES_HUBS: "another"});
            default["metadata"]["annotations"] = replaces;
        });
    record(&planes, Some("another")).await;
    waits(&planes, &projector).await;
    record(&planes, Some(HUB_UID)).await;
    waits(&planes, &projector).await;
    planes.hub.put(copy("web"));
    waits(&planes, &projector).await;
    // The WorkloadDeployment of the cell is reported by Karmada, and its Instances by another process.
    report_replicas(&planes, "dfw1", 1);
    waits(&planes, &projector).await;
    report_replicas(&planes, "dfw2", 0);
    waits(&planes, &projector).await;
    planes.hub.put(json!(instance));
    settle().await;
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    // The cell has deleted the Instance after the move.
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    report_replicas(&planes, "dfw1", 0);
    settle().await;
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(projection(&planes).is_none());
}

/// A hub that was restored from an older snapshot does not have the newest copies.
#[tokio::test(start_paused = true)]
async fn a_hub_without_a_report_of_a_cell_proves_nothing_about_a_projection() {
    let (planes, projector) = start().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes
        .hub
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
    waits(&planes, &projector).await;
    planes.hub.put(copy("web"));
    waits(&planes, &projector).await;
    report_replicas(&planes, "dfw1", 0);
    settle().await;
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(projection(&planes).is_none());
}

/// Sets the label of the Instance on the hub that names a namespace of the project. The Instance is in quarantine if
/// this is another namespace than that of the hub namespace.
async fn contradict(planes: &FakePlanes, namespace: &str) {
    planes
        .hub
        .modify::<Instance>(HUB_NAMESPACE, NAME, |instance| {
            instance["metadata"]["labels"][labels::UPSTREAM_NAMESPACE] = json!(namespace);
        });
    settle().await;
}

/// I-12: nothing is written to another hub than the one that the project or the hub namespace has recorded.
#[tokio::test(start_paused = true)]
async fn another_hub_gets_and_loses_no_quarantine() {
    let (planes, projector) = start().await;
    let is_marked = || {
        let instance = planes.hub.get::<Instance>(HUB_NAMESPACE, NAME).unwrap();
        plan::verdict::is_marked(&instance.metadata)
    };
    contradict(&planes, "other").await;
    record(&planes, Some("another")).await;
    held(&planes, &projector).await;
    record(&planes, Some(HUB_UID)).await;
    let of_namespace = |uid: &'static str| {
        let annotations = json!({api::annotations::HUB_UID: uid});
        let change = |namespace: &mut Value| namespace["metadata"]["annotations"] = annotations;
        planes.hub.modify::<Namespace>("", HUB_NAMESPACE, change);
        settle()
    };
    of_namespace("another").await;
    held(&planes, &projector).await;
    assert!(!is_marked());
    of_namespace(HUB_UID).await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    assert!(is_marked());
    contradict(&planes, "").await;
    record(&planes, Some("another")).await;
    held(&planes, &projector).await;
    assert!(is_marked());
    record(&planes, Some(HUB_UID)).await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    assert!(!is_marked() && projection(&planes).is_some());
}
