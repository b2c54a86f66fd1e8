//! Tests of a hub that refuses the copies of WorkloadDeployments.

use api::reasons::workload_deployment::HUB_REFUSED;
use api::workload_deployment::{AVAILABLE, CELLS_REPORTING};
use api::{Workload, WorkloadDeployment, condition};
use harness::{Federation, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::fixture::{Space, WITHIN, patch, workload};
use crate::interpretation::refused_updates::RefusedUpdates;

const DEPLOYMENT: &str = "web-us-dfw";
/// The words of the API server.
const WORDS: &str = "the hub is being audited";

pub(crate) async fn the_words_of_the_hub_are_shown_in_the_project(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "refused").await?;
    space.create_workload("web", &[("us", &["DFW"], 1)]).await?;
    space.until_settled("web", 1).await?;
    let copies: Api<WorkloadDeployment> = space.on_hub();
    let (dry_run, change) = (
        PatchParams::default().dry_run(),
        json!({"spec": {"placementName": "x"}}),
    );
    let refusal = RefusedUpdates::begin(
        federation.hub().client(),
        &space.hub_name,
        &["CREATE", "UPDATE"],
        ("compute.datumapis.com", "workloaddeployments"),
        ("false", WORDS),
        async || {
            copies
                .patch(DEPLOYMENT, &dry_run, &Patch::Merge(&change))
                .await
        },
    )
    .await?;

    // The hub has a copy of the former spec.
    let wanted = &workload("web", &[("us", &["DFW"], 2)])["spec"]["placements"];
    let wanted = json!({"spec": {"placements": wanted}});
    patch::<Workload>(&space.in_project(), "web", wanted).await?;
    until_refused(&space, &[CELLS_REPORTING]).await?;
    // The copy is lost.
    copies.delete(DEPLOYMENT, &DeleteParams::default()).await?;
    until_refused(&space, &[CELLS_REPORTING, AVAILABLE]).await?;

    refusal.end().await?;
    space.until_settled("web", 2).await?;
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let is_accepted = |deployment: &WorkloadDeployment| {
        let status = deployment.status.as_ref();
        status.is_some_and(|it| condition::find(&it.conditions, CELLS_REPORTING).is_none())
    };
    wait::until(&deployments, DEPLOYMENT, "accepted", WITHIN, is_accepted).await?;
    space.delete_workload("web").await?;
    Ok(())
}

/// Waits until these conditions of the WorkloadDeployment, and the placement of the Workload, show the words of the
/// hub.
async fn until_refused(space: &Space<'_>, types: &[&str]) -> anyhow::Result<()> {
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let is_refused = |deployment: &WorkloadDeployment| {
        let status = deployment.status.clone().unwrap_or_default();
        types.iter().all(|type_| {
            let condition = condition::find(&status.conditions, type_);
            condition.is_some_and(|it| it.reason == HUB_REFUSED && it.message.contains(WORDS))
        })
    };
    wait::until(&deployments, DEPLOYMENT, "refused", WITHIN, is_refused).await?;
    let workloads: Api<Workload> = space.in_project();
    let is_told = |workload: &Workload| {
        let status = workload.status.clone().unwrap_or_default();
        let mut conditions = status.placements.iter().flat_map(|it| &it.conditions);
        conditions.any(|it| it.message.contains(WORDS))
    };
    wait::until(&workloads, "web", "told", WITHIN, is_told).await?;
    Ok(())
}
