//! Tests of cells that are unreachable or that refuse writes.

use api::WorkloadDeployment;
use api::workload_deployment::CELLS_REPORTING;
use harness::{Federation, wait};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use super::deployment_fixture::{DeploymentFixture, NAME, condition_of, counters, with_image};
use super::refused_updates::RefusedUpdates;
use super::{DFW1, DFW2, ORD1, in_dfw};
use crate::fixture::WITHIN;

const NO_NEW_IMAGE: &str =
    "object.spec.template.spec.runtime.sandbox.containers.all(c, c.image != 'app:2')";
/// Error message of the cell.
const REFUSAL: &str = "app:2 is not for this cell";

pub(crate) async fn a_cell_that_dies_and_returns() -> anyhow::Result<()> {
    let mut federation = super::start("dying-cell").await?;
    let everywhere = json!({"clusterAffinity": {"clusterNames": [DFW1, DFW2, ORD1]}});
    let shares = [(DFW1, 2), (DFW2, 2), (ORD1, 2)];
    let mut fixture =
        DeploymentFixture::create(&federation, "dying", &everywhere, 2, &shares).await?;
    fixture.all_act().await?;

    // Karmada has not detected the failure of the cell yet.
    federation.cell_mut(ORD1)?.kill_apiserver().await;
    fixture.act(DFW1, 1).await?;
    until_ready(&fixture, 5).await?;
    // Now Karmada has detected the failure. This detection alone does not make Karmada call the interpreter.
    until_cluster(&federation, "False").await?;
    fixture.act(DFW2, 1).await?;
    until_ready(&fixture, 4).await?;
    fixture.set_image("app:2").await?;
    for cell in [DFW1, DFW2] {
        fixture.until_assigned(cell).await?;
        fixture.act(cell, 2).await?;
    }
    let object = until_ready(&fixture, 6).await?;
    let status = object.status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    let cells = status.cells.iter();
    let generations = cells.map(|cell| (cell.name.as_str(), cell.resource_template_generation));
    let expected = [(DFW1, Some(2)), (DFW2, Some(2)), (ORD1, Some(1))];
    assert_eq!(generations.collect::<Vec<_>>(), expected);

    federation.cell_mut(ORD1)?.restart_apiserver().await?;
    until_cluster(&federation, "True").await?;
    fixture.all_act().await?;
    fixture.check().await?;
    federation.stop().await;
    Ok(())
}

async fn until_ready(
    fixture: &DeploymentFixture,
    ready: i32,
) -> anyhow::Result<WorkloadDeployment> {
    let known = |object: &WorkloadDeployment| counters(object) == [6, 6, 6, ready];
    let object = fixture.until_hub(&format!("at {ready}"), known).await?;
    assert_eq!(condition_of(&object, CELLS_REPORTING), None);
    Ok(object)
}

/// Waits until the Cluster's condition Ready has this status.
async fn until_cluster(federation: &Federation, ready: &str) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "Cluster");
    let clusters: Api<DynamicObject> =
        Api::all_with(federation.hub().client(), &ApiResource::from_gvk(&kind));
    let has_status = |cluster: &DynamicObject| {
        let conditions = cluster.data["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Ready" && one["status"] == ready)
        })
    };
    let what = format!("Ready={ready}");
    wait::until(&clusters, ORD1, &what, 2 * WITHIN, has_status)
        .await
        .map(drop)
}

pub(crate) async fn a_refused_work(federation: &Federation) -> anyhow::Result<()> {
    let shares = [(DFW1, 2), (DFW2, 2)];
    let mut fixture =
        DeploymentFixture::create(federation, "refused", &in_dfw(), 2, &shares).await?;
    fixture.all_act().await?;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let update = || async {
        let change = Patch::Merge(json!({"spec": with_image("app:2")}));
        fixture.cells[DFW2].patch(NAME, &params, &change).await
    };
    let refused_updates = RefusedUpdates::begin(
        federation.cell(DFW2)?.client(),
        &fixture.namespace,
        &["UPDATE"],
        ("compute.datumapis.com", "workloaddeployments"),
        (NO_NEW_IMAGE, REFUSAL),
        update,
    )
    .await?;

    fixture.set_image("app:2").await?;
    fixture.until_assigned(DFW1).await?;
    let refused = |ready: i32| {
        move |object: &WorkloadDeployment| {
            // The last status of the cell still counts.
            counters(object) == [4, 4, 4, ready]
                && condition_of(object, CELLS_REPORTING).is_some_and(|reporting| {
                    !reporting.is_true()
                        && reporting.reason == "CellNotApplied"
                        && reporting.message.starts_with("dfw2: ")
                        && reporting.message.contains(REFUSAL)
                })
        }
    };
    fixture.until_hub("refused", refused(4)).await?;
    for ready in [1, 2] {
        fixture.act(DFW1, ready).await?;
        let object = fixture.until_hub("refused", refused(2 + ready)).await?;
        assert_eq!(object.status.unwrap().observed_generation, Some(1));
    }
    // A status that the cell writes now does not reach the hub. Karmada drops the status while the Work is not applied.
    fixture.act(DFW2, 1).await?;

    refused_updates.end().await?;
    fixture.all_act().await?;
    let reporting = |object: &WorkloadDeployment| condition_of(object, CELLS_REPORTING).is_none();
    fixture.until_hub("reporting", reporting).await?;
    fixture.check().await
}
