//! Tests of a project whose Namespace cannot be decoded. The federator needs only the UIDs of Namespaces.

use super::*;
use crate::fixtures::servers::spoil_namespace;

async fn start_undecodable(deployment: Value, on_hub: Vec<Value>) -> (FakePlanes, Federator) {
    let (planes, federator) = start(deployment, on_hub).await;
    spoil_namespace(&planes.project);
    settle().await;
    let project = planes.projects.get(&project_key(NAME).project).unwrap();
    assert!(project.namespaces.get("", DEFAULT_NAMESPACE).is_err());
    take_writes(&planes.servers());
    (planes, federator)
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_namespace_does_not_stop_the_federation_of_its_deployments() {
    let deployment = json!(deployment("default", NAME, "DFW", 1));
    let (planes, federator) = start_undecodable(deployment, vec![hub_namespace(), policy()]).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_some());
    let namespace = planes.hub.get::<Namespace>("", HUB_NAMESPACE).unwrap();
    let cluster = &namespace.annotations()[annotations::UPSTREAM_CLUSTER_UID];
    assert_eq!(cluster, "1");
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(take_writes(&planes.servers()), [""; 0]);
}

/// I-9: the finalization needs neither the Namespace of the WorkloadDeployment nor the Namespace `default`.
#[tokio::test(start_paused = true)]
async fn an_undecodable_namespace_does_not_block_the_end_of_its_deployments() {
    let terminating = terminating_json(recorded(NAME));
    let on_hub_before = vec![hub_namespace(), policy(), copy(NAME)];
    let (planes, federator) = start_undecodable(terminating, on_hub_before).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    assert!(on_hub(&planes).is_none() && in_project(&planes).is_none());
}

/// The caches suffice to see that nothing can be proved about the copy of another Namespace.
#[tokio::test(start_paused = true)]
async fn an_undecodable_namespace_does_not_stop_a_sweep_without_a_proof() {
    let mut former = hub_namespace();
    former["metadata"]["name"] = json!("ns-2");
    former["metadata"]["uid"] = json!("hub-2");
    let mut left = copy(NAME);
    left["metadata"]["namespace"] = json!("ns-2");
    let on_hub_before = vec![hub_namespace(), policy(), copy(NAME), former, left];
    let (planes, federator) = start_undecodable(recorded(NAME), on_hub_before).await;
    converge(&federator, || project_key(NAME), &planes.servers()).await;
    reconcile(&federator, project_key(NAME))
        .await
        .unwrap()
        .unwrap();
    let left = planes.hub.get::<WorkloadDeployment>("ns-2", NAME);
    assert!(left.is_some());
}
