//! Tests of the policy controller, with in-memory API servers.

use apiserver::{Fault, Verb};
use multicluster::queue::Failure;
use serde_json::Value;

use super::*;
use crate::fixtures::of_hub;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, context, converge, copy, exchange_hub, hub_key, hub_namespace,
    reconcile, recorded, settle, take_writes,
};

const POLICY: &str = "city-dfw";

async fn start(in_project: Vec<Value>, on_hub: Vec<Value>) -> (FakePlanes, PolicyController) {
    let planes = FakePlanes::start(in_project, on_hub).await;
    let controller = PolicyController {
        projects: Arc::clone(&planes.projects),
        hub: Arc::clone(&planes.hub_caches),
        hub_in_use: planes.hub_in_use.clone(),
        writer: planes.writer::<PolicyController>(),
    };
    (planes, controller)
}

fn policy(planes: &FakePlanes) -> Option<PropagationPolicy> {
    planes.hub.get(HUB_NAMESPACE, POLICY)
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_created_for_a_recorded_city_and_then_left_alone() {
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    let writes = converge(&controller, hub_key, &planes.servers()).await;
    assert_eq!(writes, ["create propagationpolicies ns-1/city-dfw"]);
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_or_hangs_is_an_error() {
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    planes.hub.fail(Fault::refuse(403).on_writes().times(1));
    let error = reconcile(&controller, hub_key())
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, ReconcileError::Api { .. }), "{error}");
    planes.hub.fail(Fault::hang().on_writes());
    assert!(reconcile(&controller, hub_key()).await.is_none());
    assert!(policy(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_deleted_only_when_the_hub_lists_no_copy_of_its_city() {
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    converge(&controller, hub_key, &planes.servers()).await;
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
        Fault::cut_body(),
    ] {
        planes.hub.fail(fault.on(&[Verb::List]));
        reconcile(&controller, hub_key())
            .await
            .unwrap()
            .unwrap_err();
        assert!(policy(&planes).is_some());
        planes.hub.heal();
    }
    // The hub has a copy that is missing in the cache.
    let late = Fault::hang().on(&[Verb::Watch]);
    planes.hub.fail(late.of::<WorkloadDeployment>());
    planes.hub.interrupt();
    settle().await;
    planes.hub.put(copy("late"));
    reconcile(&controller, hub_key()).await.unwrap().unwrap();
    assert!(policy(&planes).is_some());
    planes
        .hub
        .remove::<WorkloadDeployment>(HUB_NAMESPACE, "late");
    planes.hub.heal();
    tokio::time::sleep(Duration::from_mins(1)).await;
    converge(&controller, hub_key, &planes.servers()).await;
    assert!(policy(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_not_served_any_more_hides_no_earlier_error() {
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    converge(&controller, hub_key, &planes.servers()).await;
    let name = hub_key().project.unwrap();
    // The policy of the city DFW is no longer needed. The city ORD needs a policy.
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    let mut other = recorded("other");
    other["spec"]["cityCode"] = json!("ORD");
    planes.project.put(other);
    settle().await;
    let wait = Duration::from_secs(7);
    // The HTTP client of the processes copies the header Retry-After to the details of the error.
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
        "reason": "TooManyRequests", "message": "busy", "details": {"retryAfterSeconds": 7},
    });
    planes
        .hub
        .fail(Fault::answer(429, refusal.to_string()).on_writes());
    let project = planes.projects.get(&name).unwrap();
    // The manager serves the project when the controller makes the plan, and no longer when the refusal arrives.
    let unserve = async {
        assert!(planes.projects.unregister(&name, &project, || {}));
    };
    let (reconciled, ()) = tokio::join!(biased; reconcile(&controller, hub_key()), unserve);
    let error = reconciled.unwrap().unwrap_err();
    assert!(matches!(error, ReconcileError::Api { .. }), "{error}");
    assert_eq!(error.retry_after(), Some(wait));
    assert!(policy(&planes).is_some());
}

#[tokio::test(start_paused = true)]
async fn another_hub_gets_and_loses_no_policy() {
    let on_another = |object| of_hub(object, Some("another"));
    let held = async |planes: &FakePlanes, controller: &PolicyController| {
        let error = reconcile(controller, hub_key()).await.unwrap().unwrap_err();
        let is_held = matches!(error, ReconcileError::Contradiction { .. });
        assert!(is_held, "{error}");
        assert_eq!(take_writes(&planes.servers()), [""; 0]);
    };
    // The WorkloadDeployment of the project has recorded another hub.
    let (planes, controller) =
        start(vec![on_another(recorded("web"))], vec![hub_namespace()]).await;
    held(&planes, &controller).await;
    planes.project.put(recorded("web"));
    settle().await;
    converge(&controller, hub_key, &planes.servers()).await;
    assert!(policy(&planes).is_some());
    // The policy is no longer needed, but the hub namespace has recorded another hub.
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    planes.hub.put(on_another(hub_namespace()));
    settle().await;
    held(&planes, &controller).await;
    assert!(policy(&planes).is_some());
    planes.hub.put(hub_namespace());
    settle().await;
    converge(&controller, hub_key, &planes.servers()).await;
    assert!(policy(&planes).is_none());
}

/// The hub refuses the policy of the first city, and asks to wait at the second.
#[tokio::test(start_paused = true)]
async fn a_hub_that_asks_to_wait_gets_no_further_writes() {
    let in_project = [("web", "DFW"), ("api", "ORD"), ("db", "SYD")].map(|(name, city)| {
        let mut deployment = recorded(name);
        deployment["spec"]["cityCode"] = json!(city);
        deployment
    });
    let (planes, controller) = start(in_project.to_vec(), vec![hub_namespace()]).await;
    let busy = Fault::refuse(429).retry_after(Duration::from_mins(1));
    planes.hub.fail(Fault::refuse(422).on_writes().times(1));
    planes.hub.fail(busy.on_writes());
    let reconciled = reconcile(&controller, hub_key()).await;
    assert!(reconciled.unwrap().is_err());
    assert_eq!(take_writes(&planes.servers()).len(), 2);
    let namespace = HubNamespace::new(HUB_NAMESPACE).unwrap();
    let refused = |city| {
        let city = api::CityCode::new(city).unwrap();
        planes.hub_caches.policy_refusals.get(&namespace, &city)
    };
    let refused = ["DFW", "ORD", "SYD"].map(|city| refused(city).is_some());
    assert_eq!(refused, [true, false, false]);
}

/// The kubeconfig leads to the hub of another installation, which has a project of the same name. The project has no
/// record yet.
#[tokio::test(start_paused = true)]
async fn a_hub_that_other_projects_do_not_record_loses_no_policy() {
    let theirs = |mut object: Value, key: &str| {
        object["metadata"][key] = json!("ns-2");
        object
    };
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    converge(&controller, hub_key, &planes.servers()).await;
    let policy = json!(policy(&planes).unwrap());

    let on_another = of_hub(recorded("web"), Some("another"));
    let other = FakePlanes::start(vec![on_another], Vec::new()).await;
    let on_hub = vec![theirs(hub_namespace(), "name"), theirs(policy, "namespace")];
    let (planes, controller) = start(Vec::new(), on_hub).await;
    planes.serve_also("other", &other);
    let key = HubKey {
        namespace: HubNamespace::new("ns-2").unwrap(),
        ..hub_key()
    };
    let error = reconcile(&controller, key).await.unwrap();
    let is_held = matches!(error, Err(ReconcileError::Contradiction { .. }));
    assert!(is_held, "{error:?}");
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// The address of the hub leads to another hub, whose lists are empty. The watch has not reported it yet.
#[tokio::test(start_paused = true)]
async fn a_hub_that_is_exchanged_behind_its_address_proves_no_unused_policy() {
    let (planes, controller) = start(vec![recorded("web")], vec![hub_namespace()]).await;
    converge(&controller, hub_key, &planes.servers()).await;
    planes
        .project
        .remove::<WorkloadDeployment>("default", "web");
    settle().await;
    exchange_hub(&planes.hub);
    let error = controller.reconcile(&context(), hub_key()).await;
    let is_held = matches!(error, Err(ReconcileError::Contradiction { .. }));
    assert!(is_held, "{:?}", error.map(drop));
    assert!(policy(&planes).is_some());
}
