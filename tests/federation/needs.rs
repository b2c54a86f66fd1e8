//! Tests of a Workload's needs: LocationBindings for its cities, and Networks.

use api::networking::Network;
use api::{Condition, Instance, Workload, WorkloadDeployment, condition};
use harness::{Federation, networking, wait};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::fixture::{DFW, Space, WITHIN, create, patch, patch_status, workload};

pub(crate) async fn a_missing_city_is_reported_and_used_once_offered(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "offer").await?;
    space
        .create_workload("web", &[("us", &["DFW"], 1), ("asia", &["SIN"], 1)])
        .await?;
    // The controller has done everything else, so the observedGeneration of the Workload is current.
    let placed = space.until_settled("web", 1).await?;
    assert_eq!(placed.status.clone().unwrap().deployments, 1);
    assert_eq!(
        of_placement(&placed, "asia").message,
        "no deployment in SIN: the project has no usable LocationBinding there"
    );

    let project = federation.project().client();
    networking::offer_city(&project, "offered-late", "SIN").await?;
    let taken_up = |workload: &Workload| {
        let status = workload.status.clone().unwrap_or_default();
        status.deployments == 2 && !of_placement(workload, "asia").message.contains("SIN:")
    };
    wait::until(&space.in_project(), "web", "in SIN", WITHIN, taken_up).await?;
    let there = |_: &WorkloadDeployment| true;
    wait::until(&space.on_hub(), "web-asia-sin", "there", WITHIN, there).await?;
    space.delete_workload("web").await?;
    networking::unbind_location(&project, "offered-late").await
}

pub(crate) async fn running_instances_stay_when_their_city_is_withdrawn(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "lost").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let deployments = space.in_project::<WorkloadDeployment>();
    let before = deployments.get("web-us-dfw").await?;

    let project = federation.project().client();
    networking::unbind_location(&project, "dfw").await?;
    // The condition of a new Workload proves that the controller has observed the loss.
    space
        .create_workload("late", &[("us", &["DFW"], 1)])
        .await?;
    wait::until(&space.in_project(), "late", "skipped", WITHIN, |late| {
        of_placement(late, "us")
            .message
            .starts_with("no deployment in DFW: ")
    })
    .await?;
    // The running deployment stays, and changes of its Workload still reach it.
    let more = workload("web", &[("us", &["DFW"], 2)]);
    patch::<Workload>(&space.in_project(), "web", json!({"spec": more["spec"]})).await?;
    space.until_settled("web", 2).await?;
    let after = deployments.get("web-us-dfw").await?;
    assert_eq!(
        (after.uid(), after.metadata.deletion_timestamp),
        (before.uid(), None)
    );

    networking::offer_city(&project, "dfw", "DFW").await?;
    space.until_settled("late", 1).await?;
    for name in ["web", "late"] {
        space.delete_workload(name).await?;
    }
    space.until_empty().await
}

pub(crate) async fn a_workload_waits_for_missing_networks(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "network").await?;
    let mut web = workload("web", &[("us", &["DFW"], 1)]);
    web["spec"]["template"]["spec"]["networkInterfaces"] = json!([
        {"network": {"name": "later"}},
        // A Network in another namespace does not count.
        {"network": {"name": "test-network", "namespace": "elsewhere"}},
    ]);
    create::<Workload>(&space.in_project(), web).await?;
    let missing = |workload: &Workload| {
        let available = available(workload);
        available
            .as_ref()
            .is_some_and(|it| it.reason == "NetworkNotFound")
    };
    let waiting = wait::until(&space.in_project(), "web", "waiting", WITHIN, missing).await?;
    let message = format!("Network {}/later does not exist", space.name);
    assert_eq!(available(&waiting).unwrap().message, message);
    let deployments = space.in_project::<WorkloadDeployment>();
    let placed = deployments.list(&ListParams::default()).await?;
    assert!(placed.items.is_empty(), "{placed:?}");

    let project = federation.project().client();
    networking::create_network(&project, &space.name, "later").await?;
    let settled = space.until_settled("web", 1).await?;

    // After the deletion of their Network, the Instances stay. The conditions of other writers stay too.
    let mut status = json!(settled.status.unwrap());
    let billed = json!({
        "type": "example.com/Billed", "status": "True", "reason": "Billed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let gateway = json!({"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]});
    status["conditions"].as_array_mut().unwrap().push(billed);
    let others = json!({"conditions": status["conditions"], "gateway": gateway});
    patch_status::<Workload>(&space.in_project(), "web", others).await?;
    let networks = space.in_project::<Network>();
    networks.delete("later", &DeleteParams::default()).await?;
    let held = wait::until(&space.in_project(), "web", "held", WITHIN, missing).await?;
    let status = held.status.unwrap();
    assert_eq!((status.deployments, status.ready_replicas), (1, 1));
    assert!(condition::is_true(&status.conditions, "example.com/Billed"));
    assert_eq!(json!(status.gateway)["addresses"], gateway["addresses"]);
    let instances = space.in_cell::<Instance>(DFW);
    let instances = instances.list(&ListParams::default()).await?.items;
    assert_eq!(instances.len(), 1);

    networking::create_network(&project, &space.name, "later").await?;
    space.until_settled("web", 1).await?;
    space.delete_workload("web").await?;
    space.until_empty().await
}

fn available(workload: &Workload) -> Option<Condition> {
    let status = workload.status.as_ref()?;
    condition::find(&status.conditions, "Available").cloned()
}

/// Returns the condition `Available` of a placement, or a placeholder if it has none.
pub(crate) fn of_placement(workload: &Workload, name: &str) -> Condition {
    let mut placements = workload.status.iter().flat_map(|status| &status.placements);
    let placement = placements.find(|placement| placement.name == name);
    let available = placement.and_then(|it| condition::find(&it.conditions, "Available").cloned());
    available.unwrap_or_else(|| {
        let (status, now) = (
            condition::ConditionStatus::Unknown,
            multicluster::clock::now(),
        );
        Condition::new("Available", status, "NotSaid", "", now)
    })
}
