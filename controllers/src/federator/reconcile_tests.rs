//! Tests of the federator, with in-memory API servers.

use api::annotations;
use api::reasons::workload_deployment::HUB_NAMESPACE_CONTRADICTED;
use apiserver::{ApiServer, Fault, Verb, objects};
use serde_json::Value;

use super::*;
use crate::fixtures::servers::{
    FakePlanes, HUB_NAMESPACE, HUB_UID, context, converge, copy, exchange_hub, hub_key,
    hub_namespace, project_key, reconcile, recorded, settle, take_writes, terminating_json,
};
use crate::fixtures::{deployment, now};

use crate::policy::PolicyController;

mod ending;
mod no_project;
mod other_hub;
mod overrides;
mod refusals;
mod stale_cache;
mod undecodable;

const NAME: &str = "web-us-dfw";

async fn start(in_project: Value, on_hub: Vec<Value>) -> (FakePlanes, Federator) {
    start_with(in_project, on_hub, |_| {}).await
}

async fn start_with(
    in_project: Value,
    on_hub: Vec<Value>,
    change: impl FnOnce(&ApiServer),
) -> (FakePlanes, Federator) {
    let planes = FakePlanes::start_with(vec![in_project], on_hub, change).await;
    let federator = Federator {
        projects: Arc::clone(&planes.projects),
        hub: Arc::clone(&planes.hub_caches),
        hub_in_use: planes.hub_in_use.clone(),
        stale_cells: Arc::default(),
        held_by_hub: HeldByHub::new(&planes.metrics),
        writer: planes.writer::<Federator>(),
        publisher: planes.publisher.clone(),
    };
    (planes, federator)
}

/// Returns a policy that selects the copies in DFW.
fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "city-dfw", "namespace": HUB_NAMESPACE},
        "spec": {
            "resourceSelectors": [{
                "apiVersion": api::API_VERSION,
                "kind": "WorkloadDeployment",
                "labelSelector": {"matchLabels": {api::labels::CITY_CODE: "DFW"}},
            }],
            "placement": {"clusterAffinity": {"labelSelector": {
                "matchLabels": {api::labels::CITY_CODE: "DFW"},
            }}},
        },
    })
}

fn policies(planes: &FakePlanes) -> PolicyController {
    PolicyController {
        projects: Arc::clone(&planes.projects),
        hub: Arc::clone(&planes.hub_caches),
        hub_in_use: planes.hub_in_use.clone(),
        writer: planes.writer::<PolicyController>(),
    }
}

/// Returns a binding of the copy to a cell that has this report of it.
fn reported(copy: &WorkloadDeployment, report: &Value) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("{NAME}-workloaddeployment"), "namespace": HUB_NAMESPACE},
        "spec": {
            "clusters": [{"name": "dfw1"}],
            "resource": {
                "apiVersion": api::API_VERSION, "kind": "WorkloadDeployment", "name": NAME, "uid": copy.metadata.uid,
            },
        },
        "status": {"aggregatedStatus": [{"clusterName": "dfw1", "applied": true, "status": report}]},
    })
}

/// Returns the Cluster of a cell that is reachable.
fn cluster() -> Value {
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": now().to_string(),
    });
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "dfw1"},
        "status": {"conditions": [ready]},
    })
}

/// Starts with a terminating deployment. Its copy has a finalizer.
async fn start_terminating() -> (FakePlanes, Federator) {
    let mut copy = copy(NAME);
    copy["metadata"]["finalizers"] = json!(["example.com/held"]);
    let on_hub = vec![hub_namespace(), policy(), copy];
    start(terminating_json(recorded(NAME)), on_hub).await
}

fn in_project(planes: &FakePlanes) -> Option<WorkloadDeployment> {
    planes.project.get("default", NAME)
}

fn on_hub(planes: &FakePlanes) -> Option<WorkloadDeployment> {
    planes.hub.get(HUB_NAMESPACE, NAME)
}

fn available(deployment: &WorkloadDeployment) -> &api::Condition {
    let status = deployment.status.as_ref().unwrap();
    condition::find(&status.conditions, AVAILABLE).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_recorded_before_anything_is_written_to_the_hub() {
    let (planes, federator) = start(json!(deployment("default", NAME, "DFW", 1)), Vec::new()).await;
    planes.hub.fail(Fault::hang().on_writes());
    assert!(reconcile(&federator, project_key(NAME)).await.is_none());
    let stored = in_project(&planes).unwrap();
    assert_eq!(
        stored.annotations()[annotations::FEDERATION_NAMESPACE],
        HUB_NAMESPACE
    );
    assert_eq!(stored.finalizers(), [finalizers::FEDERATOR]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_written_and_a_settled_deployment_is_not() {
    let (planes, federator) = start(json!(deployment("default", NAME, "DFW", 1)), Vec::new()).await;
    let writes = converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(
        writes.contains(&"create namespaces ns-1".to_owned()),
        "{writes:?}"
    );
    assert!(on_hub(&planes).is_none(), "a copy waits for its policy");
    converge(&policies(&planes), hub_key, &planes.servers()).await;
    let writes = converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(
        writes.contains(&"create workloaddeployments ns-1/web-us-dfw".to_owned()),
        "{writes:?}"
    );
    assert_eq!(
        on_hub(&planes).unwrap().spec,
        in_project(&planes).unwrap().spec
    );
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_is_an_error() {
    for code in [403, 500] {
        let (planes, federator) = start(recorded(NAME), vec![hub_namespace(), policy()]).await;
        planes.hub.fail(Fault::refuse(code).on_writes());
        let error = reconcile(&federator, project_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(matches!(error, ReconcileError::Api { .. }), "{error}");
        assert!(on_hub(&planes).is_none());
        assert_eq!(
            in_project(&planes).unwrap().finalizers(),
            [finalizers::FEDERATOR]
        );
    }
}

/// I-8: an error of the hub does not remove the finalizer.
#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_hub_says_that_the_copy_is_gone() {
    let (planes, federator) = start_terminating().await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(
        on_hub(&planes)
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    assert!(in_project(&planes).is_some());
    planes.hub.remove::<WorkloadDeployment>(HUB_NAMESPACE, NAME);
    settle().await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::answer(404, ""),
        Fault::refuse(403),
        Fault::disconnect(),
    ] {
        planes.hub.fail(fault.on(&[Verb::Get, Verb::Delete]));
        reconcile(&federator, project_key(NAME))
            .await
            .unwrap()
            .unwrap_err();
        assert!(in_project(&planes).is_some());
        planes.hub.heal();
    }
    planes.hub.fail(Fault::hang());
    assert!(reconcile(&federator, project_key(NAME)).await.is_none());
    assert!(in_project(&planes).is_some());
    planes.hub.heal();
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(in_project(&planes).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_copy_is_deleted_only_when_the_project_says_that_its_deployment_is_gone() {
    let (planes, federator) = start(
        recorded("other"),
        vec![hub_namespace(), policy(), copy(NAME)],
    )
    .await;
    for fault in [
        Fault::answer(404, "404 page not found\n"),
        Fault::refuse(500),
        Fault::disconnect(),
    ] {
        planes.project.fail(fault.on(&[Verb::Get]));
        let _ = reconcile(&federator, project_key(NAME)).await.unwrap();
        assert!(on_hub(&planes).is_some());
        planes.project.heal();
    }
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert!(on_hub(&planes).is_none());
}

/// I-12: another API server at the address of the project answers first. Then the project's own API server answers.
#[tokio::test(start_paused = true)]
async fn one_answer_does_not_prove_an_orphan() {
    let on_hub_before = vec![hub_namespace(), policy(), copy(NAME)];
    let (planes, federator) = start(recorded("other"), on_hub_before).await;
    let there = Fault::answer(200, recorded(NAME).to_string()).of::<WorkloadDeployment>();
    for answer in [
        Fault::absent::<WorkloadDeployment>(NAME).times(1),
        there.on(&[Verb::Get]).name(NAME),
    ] {
        planes.project.fail(answer);
    }
    let _ = reconcile(&federator, project_key(NAME)).await.unwrap();
    assert!(on_hub(&planes).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_spec_travels_with_fields_that_the_types_do_not_know() {
    let mut deployment = recorded(NAME);
    deployment["spec"]["template"] = objects::later_template();
    deployment["spec"]["scaleSettings"]["later"] = json!(7);
    deployment["spec"]["later"] = json!({"text": "t"});
    let spec = deployment["spec"].clone();
    let (planes, federator) = start(deployment, vec![hub_namespace(), policy()]).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert_eq!(json!(on_hub(&planes).unwrap().spec), spec);
}

#[tokio::test(start_paused = true)]
async fn without_namespaces_deployments_are_finalized_and_not_federated() {
    let stop = ApiServer::stop_serving::<Namespace>;
    let web = json!(deployment("default", NAME, "DFW", 1));
    let (planes, federator) = start_with(web, Vec::new(), stop).await;
    let result = reconcile(&federator, project_key(NAME)).await.unwrap();
    assert!(matches!(result, Err(ReconcileError::NotListed { .. })));
    assert_eq!(take_writes(&planes.servers()), [""; 0]);

    let on_hub_before = vec![hub_namespace(), policy(), copy(NAME)];
    let terminating = terminating_json(recorded(NAME));
    let (planes, federator) = start_with(terminating, on_hub_before, stop).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_none());
    assert!(in_project(&planes).is_none());
}

/// I-14: an invalid record is shown in the status.
#[tokio::test(start_paused = true)]
async fn an_invalid_record_of_the_hub_namespace_is_reported_once() {
    let mut deployment = recorded(NAME);
    deployment["metadata"]["annotations"][annotations::FEDERATION_NAMESPACE] = json!("");
    let (planes, federator) = start(deployment, vec![hub_namespace(), policy()]).await;
    for writes in [1, 0] {
        let reconciled = reconcile(&federator, project_key(NAME)).await.unwrap();
        let error = reconciled.unwrap_err();
        assert!(matches!(error, ReconcileError::Identity { .. }), "{error}");
        assert_eq!(take_writes(&planes.servers()).len(), writes);
        settle().await;
    }
    let deployment = in_project(&planes).unwrap();
    assert_eq!(available(&deployment).reason, HUB_NAMESPACE_CONTRADICTED);
}

/// I-16: a customer can edit the record. Without the Namespace, it leads to no hub namespace without an identity.
#[tokio::test(start_paused = true)]
async fn a_record_is_not_used_while_the_namespace_is_unknown() {
    let mut foreign = hub_namespace();
    foreign["metadata"]["labels"] = json!({});
    for (on_hub, is_used) in [(foreign, false), (hub_namespace(), true)] {
        let (planes, federator) = start(recorded(NAME), vec![on_hub, policy()]).await;
        planes.project.remove::<Namespace>("", "default");
        settle().await;
        take_writes(&planes.servers());
        let reconciled = reconcile(&federator, project_key(NAME)).await.unwrap();
        let is_held = matches!(reconciled, Err(ReconcileError::NotYet { .. }));
        assert_eq!(is_held, !is_used, "{reconciled:?}");
        assert_eq!(take_writes(&planes.servers()).is_empty(), !is_used);
    }
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_copy_does_not_block_the_end_of_its_deployment() {
    let mut undecodable = copy(NAME);
    undecodable["spec"]["template"] = json!(7);
    let deployment = terminating_json(recorded(NAME));
    let (planes, federator) = start(deployment, vec![hub_namespace(), policy(), undecodable]).await;
    let writes = converge(&federator, || project_key(NAME), &planes.servers()).await;
    let expected = [
        "delete workloaddeployments ns-1/web-us-dfw",
        "patch workloaddeployments default/web-us-dfw",
    ];
    assert_eq!(writes, expected);
    assert!(in_project(&planes).is_none());
}
