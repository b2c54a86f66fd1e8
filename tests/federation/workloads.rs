//! Tests of Workloads, from creation to deletion.

use std::collections::BTreeSet;

use anyhow::ensure;
use api::karmada::PropagationPolicy;
use api::{Instance, Workload, WorkloadDeployment, condition, workload_deployment};
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use harness::{Federation, networking, provider, wait};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{DFW, ORD, Space, WITHIN, create, is_ready, is_settled, patch, workload};

pub(crate) async fn several_placements(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "placements").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 1), ("south", &["DFW"], 2)])
        .await?;
    let workload = space.until_settled("web", 4).await?;

    let status = workload.status.clone().unwrap();
    assert_eq!(status.deployments, 3);
    let placements: Vec<_> = status
        .placements
        .iter()
        .map(|p| (p.name.as_str(), p.ready_replicas))
        .collect();
    assert_eq!(placements, [("us", 2), ("south", 2)]);
    let in_dfw = ["web-south-dfw-0", "web-south-dfw-1", "web-us-dfw-0"];
    space.until_instances(space.in_cell(DFW), &in_dfw).await?;
    space
        .until_instances(space.in_cell(ORD), &["web-us-ord-0"])
        .await?;
    let all = [
        "web-south-dfw-0",
        "web-south-dfw-1",
        "web-us-dfw-0",
        "web-us-ord-0",
    ];
    space.until_instances(space.on_hub(), &all).await?;
    space.until_instances(space.in_project(), &all).await?;

    // The change removes a placement and a city.
    let change = crate::fixture::workload("web", &[("us", &["ORD"], 1)]);
    patch::<Workload>(&space.in_project(), "web", json!({"spec": change["spec"]})).await?;
    let workload = space.until_settled("web", 1).await?;
    assert_eq!(workload.status.unwrap().deployments, 1);
    space
        .until_instances(space.in_project(), &["web-us-ord-0"])
        .await?;
    space.until_instances(space.in_cell(DFW), &[]).await?;
    wait::gone(&space.on_hub::<PropagationPolicy>(), "city-dfw", WITHIN).await?;

    space
        .in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    wait::gone(&space.in_project::<Workload>(), "web", WITHIN).await?;
    space.until_instances(space.in_project(), &[]).await?;
    space.until_empty().await
}

pub(crate) async fn a_city_without_a_cell(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "no-cell").await?;
    networking::offer_city(&federation.project().client(), "lhr", "LHR").await?;
    space
        .create_workload("web", &[("nowhere", &["LHR"], 1), ("us", &["DFW"], 1)])
        .await?;
    let as_expected = |workload: &Workload| {
        let status = workload.status.clone().unwrap_or_default();
        let placements = status.placements.iter().filter_map(|placement| {
            let available = condition::find(&placement.conditions, "Available")?;
            Some((placement.name.as_str(), available.reason.as_str()))
        });
        let placements: Vec<_> = placements.collect();
        let expected = [
            ("nowhere", workload_deployment::NO_MATCHING_CELL),
            ("us", "AvailableDeploymentFound"),
        ];
        placements == expected
            && (status.ready_replicas, status.replicas) == (1, 1)
            && condition::is_true(&status.conditions, "Available")
    };
    let workloads = space.in_project();
    wait::until(&workloads, "web", "available", WITHIN, as_expected).await?;
    // The deployment waits on the hub for a cell.
    wait::until(
        &space.on_hub::<WorkloadDeployment>(),
        "web-nowhere-lhr",
        "there",
        WITHIN,
        |_| true,
    )
    .await?;

    space
        .in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    wait::gone(&space.in_project::<Workload>(), "web", WITHIN).await?;
    space.until_empty().await
}

pub(crate) async fn two_namespaces_with_equal_names(federation: &Federation) -> anyhow::Result<()> {
    let (one, other) = (
        Space::create(federation, "equal").await?,
        Space::create(federation, "equal").await?,
    );
    for (space, replicas) in [(&one, 1), (&other, 2)] {
        space
            .create_workload("web", &[("us", &["DFW"], replicas)])
            .await?;
    }
    one.until_settled("web", 1).await?;
    other.until_settled("web", 2).await?;
    one.until_instances(one.in_project(), &["web-us-dfw-0"])
        .await?;
    other
        .until_instances(other.in_project(), &["web-us-dfw-0", "web-us-dfw-1"])
        .await?;

    one.in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    wait::gone(&one.in_project::<Workload>(), "web", WITHIN).await?;
    one.until_empty().await?;
    other.until_settled("web", 2).await?;
    other
        .until_instances(other.in_cell(DFW), &["web-us-dfw-0", "web-us-dfw-1"])
        .await?;
    Ok(())
}

pub(crate) async fn scaled_to_zero_and_back(federation: &Federation) -> anyhow::Result<()> {
    let space = Space::create(federation, "scale").await?;
    space.create_workload("web", &[("us", &["DFW"], 2)]).await?;
    space.until_settled("web", 2).await?;

    // A Workload must not have 0 replicas. A deployment may: an autoscaler writes this field.
    let scaled = |replicas| json!({"spec": {"replicas": replicas}});
    let deployments: Api<WorkloadDeployment> = space.in_project();
    patch(&deployments, "web-us-dfw", scaled(0)).await?;
    space.until_settled("web", 0).await?;
    space.until_instances(space.in_project(), &[]).await?;
    // The deployment stays in its cell. Its condition has the reason.
    let nothing = |deployment: &WorkloadDeployment| is_settled(deployment, 0);
    let deployment = wait::until(
        &space.in_cell(DFW),
        "web-us-dfw",
        "settled",
        WITHIN,
        nothing,
    )
    .await?;
    let conditions = deployment.status.unwrap().conditions;
    assert_eq!(
        condition::find(&conditions, "Available").unwrap().reason,
        "NoInstancesDesired"
    );

    patch(&deployments, "web-us-dfw", scaled(3)).await?;
    space.until_settled("web", 3).await?;
    space
        .until_instances(
            space.in_project(),
            &["web-us-dfw-0", "web-us-dfw-1", "web-us-dfw-2"],
        )
        .await?;
    Ok(())
}

/// I-22: a template change replaces instances one at a time.
pub(crate) async fn a_new_image_replaces_instances_one_by_one(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "image").await?;
    space.create_workload("web", &[("us", &["DFW"], 3)]).await?;
    space.until_settled("web", 3).await?;

    let instances: Api<Instance> = space.in_cell(DFW);
    let mut versions = watcher(instances, watcher::Config::default())
        .backoff(SteadyBackoff)
        .touched_objects()
        .boxed();
    patch::<Workload>(&space.in_project(), "web", image("app:2")).await?;

    // No second Instance may become unavailable before the first one is available again.
    let mut away = BTreeSet::new();
    let mut replaced = Vec::new();
    let replacement = async {
        while replaced.len() < 3 {
            let Some(Ok(instance)) = versions.next().await else {
                continue;
            };
            let name = instance.name_any();
            let is_new = image_of(&instance) == "app:2";
            if is_new && is_ready(&instance) {
                if away.remove(&name) {
                    replaced.push(name);
                }
            } else if is_new || instance.metadata.deletion_timestamp.is_some() {
                away.insert(name);
            }
            ensure!(away.len() <= 1, "unavailable at the same time: {away:?}");
        }
        Ok(())
    };
    tokio::time::timeout(WITHIN, replacement).await??;
    assert_eq!(replaced, ["web-us-dfw-2", "web-us-dfw-1", "web-us-dfw-0"]);
    space.until_settled("web", 3).await?;
    for projection in space
        .until_instances(
            space.in_project(),
            &["web-us-dfw-0", "web-us-dfw-1", "web-us-dfw-2"],
        )
        .await?
    {
        assert_eq!(image_of(&projection), "app:2");
    }
    Ok(())
}

pub(crate) async fn a_broken_image_is_replaced_by_a_good_one(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "broken").await?;
    let mut broken = workload("web", &[("us", &["DFW"], 2)]);
    broken["spec"]["template"]["metadata"] =
        json!({"annotations": {provider::BEHAVIOUR: provider::STOPS}});
    create::<Workload>(&space.in_project(), broken).await?;
    let stopped = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        condition::find(&status.conditions, "Ready").is_some_and(|ready| ready.reason == "Stopped")
    };
    wait::until(
        &space.in_project(),
        "web-us-dfw-0",
        "stopped",
        WITHIN,
        stopped,
    )
    .await?;
    // The second Instance waits for the first one.
    assert!(
        space
            .in_cell::<Instance>(DFW)
            .get_opt("web-us-dfw-1")
            .await?
            .is_none()
    );

    let mended =
        json!({"spec": {"template": {"metadata": {"annotations": {provider::BEHAVIOUR: null}}}}});
    patch::<Workload>(&space.in_project(), "web", mended).await?;
    space.until_settled("web", 2).await?;
    Ok(())
}

pub(crate) async fn city_codes_that_differ_in_case_are_separate(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "case").await?;
    networking::offer_city(&federation.project().client(), "lower-dfw", "dfw").await?;
    space
        .create_workload("web", &[("us", &["DFW", "dfw"], 1)])
        .await?;
    let policies: Api<PropagationPolicy> = space.on_hub();
    let cities = || async {
        let policies = policies.list(&ListParams::default()).await?.items;
        let cities: BTreeSet<_> = policies
            .iter()
            .filter_map(|policy| policy.labels().get(api::labels::CITY_CODE).cloned())
            .collect();
        ensure!(policies.len() == 2, "policies are for {cities:?}");
        Ok(cities)
    };
    let cities = wait::eventually("a policy for each code", WITHIN, cities).await?;
    assert_eq!(cities.into_iter().collect::<Vec<_>>(), ["DFW", "dfw"]);
    let deployments = || async {
        let copies = space
            .on_hub::<WorkloadDeployment>()
            .list(&ListParams::default())
            .await?
            .items;
        ensure!(copies.len() == 2, "{} copies", copies.len());
        Ok(())
    };
    wait::eventually("a copy for each code", WITHIN, deployments).await?;
    // Only one of the city codes has a cell.
    wait::until(
        &space.in_cell::<Instance>(DFW),
        "web-us-dfw-0",
        "ready",
        WITHIN,
        is_ready,
    )
    .await?;
    space
        .in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    space.until_empty().await
}

pub(crate) async fn a_city_code_that_is_not_a_label_value_is_reported(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "city").await?;
    networking::offer_city(&federation.project().client(), "new-york", "New York").await?;
    space
        .create_workload("web", &[("us", &["New York"], 1)])
        .await?;
    let reported = |workload: &Workload| {
        let status = workload.status.clone().unwrap_or_default();
        let available = condition::find(&status.conditions, "Available");
        available.is_some_and(|available| {
            available
                .message
                .contains("InvalidCityCode: city code \"New York\" is not valid")
        })
    };
    wait::until(
        &space.in_project(),
        "web",
        "reporting the city code",
        WITHIN,
        reported,
    )
    .await?;
    space
        .in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    wait::gone(&space.in_project::<Workload>(), "web", WITHIN).await
}

fn image(image: &str) -> serde_json::Value {
    let containers = json!([{"name": "app", "image": image}]);
    json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}})
}

fn image_of(instance: &Instance) -> String {
    let sandbox = instance.spec.runtime.sandbox.clone().unwrap_or_default();
    sandbox
        .containers
        .first()
        .map(|container| container.image.clone())
        .unwrap_or_default()
}
