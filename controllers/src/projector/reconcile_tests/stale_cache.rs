//! Tests of a process whose cache of WorkloadDeployments is behind.

use jiff::Timestamp;
use tokio::time::sleep;

use super::*;
use crate::fixtures::now;
use crate::fixtures::servers::context;
use crate::projector::plan::verdict::GRACE;

/// Loses the watch of WorkloadDeployments. Then the WorkloadDeployment is created.
async fn create_unwatched(planes: &FakePlanes, uid: &str) {
    let refused = Fault::refuse(503).on(&[Verb::Watch]);
    planes.project.fail(refused.of::<WorkloadDeployment>());
    planes.project.interrupt();
    sleep(Duration::from_mins(3)).await;
    if planes
        .project
        .get::<WorkloadDeployment>("default", "web")
        .is_some()
    {
        planes
            .project
            .remove::<WorkloadDeployment>("default", "web");
    }
    let mut later = recorded("web");
    later["metadata"]["uid"] = json!(uid);
    planes.project.put(later);
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_projection_keeps_its_owner_while_the_watch_is_lost() {
    let (planes, projector) = start().await;
    create_unwatched(&planes, "later-uid").await;
    let error = reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    planes.project.heal();
    sleep(Duration::from_mins(3)).await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    let owners = projection(&planes).unwrap().metadata.owner_references;
    assert_eq!(owners.unwrap()[0].uid, "later-uid");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_the_cache_lacks_causes_no_quarantine() {
    let (planes, projector) = start().await;
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    settle().await;
    let outcome = projector.reconcile(&context(), instance_key(NAME)).await;
    assert!(matches!(outcome, Ok(Outcome::Again(_))), "{outcome:?}");
    create_unwatched(&planes, "web-uid").await;
    let later = ReconcileContext::new(after_the_grace, None);
    let error = projector
        .reconcile(&later, instance_key(NAME))
        .await
        .unwrap_err();
    assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
    // Without the WorkloadDeployment, the Instance is put into quarantine in spite of the lost watch.
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    projector
        .reconcile(&later, instance_key(NAME))
        .await
        .unwrap();
    assert_ne!(take_writes(&planes.servers()), [""; 0]);
}

/// A hub that has lost its copies proves nothing about a projection whose WorkloadDeployment the cache lacks.
#[tokio::test(start_paused = true)]
async fn a_projection_stays_although_the_cache_lacks_its_deployment() {
    let (planes, projector) = start().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    settle().await;
    create_unwatched(&planes, "web-uid").await;
    planes.hub.remove::<Instance>(HUB_NAMESPACE, NAME);
    planes
        .hub
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, "web");
    settle().await;
    for is_watched in [false, true] {
        if is_watched {
            planes.project.heal();
            sleep(Duration::from_mins(3)).await;
        }
        let error = reconcile(&projector, instance_key(NAME)).await.unwrap();
        let error = error.expect_err("the Instance may run");
        assert!(matches!(error, ReconcileError::NotYet { .. }), "{error}");
        assert!(projection(&planes).is_some());
    }
    // Without the WorkloadDeployment, the projection ends.
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    settle().await;
    reconcile(&projector, instance_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(projection(&planes).is_none());
}

/// An Instance in the hub namespace of a former Namespace has no WorkloadDeployment in the project, whatever the watch
/// reports. It does not block the projection of the Instance of the same name.
#[tokio::test(start_paused = true)]
async fn an_instance_of_a_former_namespace_blocks_no_projection() {
    let (planes, projector) = start().await;
    let former = "ns-former";
    let mut namespace = hub_namespace();
    namespace["metadata"]["name"] = json!(former);
    namespace["metadata"]["uid"] = json!("former-uid");
    planes.hub.put(namespace);
    let mut instance = json!(instance(former, NAME));
    instance["metadata"]["uid"] = json!("of-the-former-namespace");
    instance["metadata"]["labels"] = json!({labels::WORKLOAD_DEPLOYMENT_NAME: "web"});
    planes.hub.put(instance);
    settle().await;
    converge(&projector, || instance_key(NAME), &planes.servers()).await;
    let refused = Fault::refuse(503).on(&[Verb::Watch]);
    planes.project.fail(refused.of::<WorkloadDeployment>());
    planes.project.interrupt();
    sleep(Duration::from_mins(3)).await;
    let later = ReconcileContext::new(after_the_grace, None);
    let reconciled = projector.reconcile(&later, instance_key(NAME)).await;
    assert!(reconciled.is_ok(), "{reconciled:?}");
    let of_former = planes.hub.get::<Instance>(former, NAME).unwrap();
    assert!(!of_former.annotations().is_empty(), "{of_former:?}");
}

/// The time after which a missing WorkloadDeployment is a reason for quarantine.
fn after_the_grace() -> Timestamp {
    now() + GRACE + GRACE
}
