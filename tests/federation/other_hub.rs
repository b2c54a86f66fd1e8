//! Tests a management process whose kubeconfig leads to another hub.

use anyhow::{Context, ensure};
use api::reasons::workload_deployment::HUB_CONTRADICTED;
use api::workload_deployment::AVAILABLE;
use api::{
    DEFAULT_NAMESPACE, Instance, Workload, WorkloadDeployment, annotations, condition, finalizers,
    labels,
};
use harness::plane::Plane;
use harness::{Config, Federation, wait};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{self, DFW, Space, WITHIN, create};

/// A WorkloadDeployment that only the other hub has.
const OLD: &str = "old-us-dfw";
/// A hub namespace whose Namespace the project does not have.
const EMPTY: &str = "ns-00000000-0000-0000-0000-00000000000e";
const US_DFW: (&str, &[&str], i32) = ("us", &["DFW"], 1);

/// I-12: the "not found" of another hub proves nothing.
pub(crate) async fn nothing_is_removed_because_of_another_hub() -> anyhow::Result<()> {
    let config = fixture::config("other-hub")?;
    let mut federation = fixture::start_from(&config).await?;
    let directory = federation.directory().to_owned();
    let run = run(&mut federation, &config).await;
    run.with_context(|| format!("in {}", directory.display()))?;
    federation.stop().await;
    Ok(())
}

async fn run(federation: &mut Federation, config: &Config) -> anyhow::Result<()> {
    let other = federation.start_other_hub(config).await?;
    let ca_bundle = Federation::ca_bundle_of(&other).await?;
    let federation = &*federation;
    let space = Space::create(federation, "other").await?;
    for name in ["calm", "gone"] {
        space.create_workload(name, &[US_DFW]).await?;
        space.until_settled(name, 1).await?;
    }
    let projections: Api<Instance> = space.in_project();
    let all = ["calm-us-dfw-0", "gone-us-dfw-0"];
    space.until_instances(projections.clone(), &all).await?;

    leave_old_objects(&space, &other).await?;
    federation.manage_with(&other).await?;
    let workloads: Api<Workload> = space.in_project();
    workloads.delete("gone", &DeleteParams::default()).await?;
    space.create_workload("new", &[US_DFW]).await?;
    until_held(&space).await?;
    nothing_has_changed(&space, &other).await?;
    ensure!(
        Federation::ca_bundle_of(&other).await? == ca_bundle,
        "the registration of another installation has changed"
    );

    federation.manage_with(federation.hub()).await?;
    wait::gone(&workloads, "gone", WITHIN).await?;
    let copies: Api<WorkloadDeployment> = space.on_hub();
    wait::gone(&copies, "gone-us-dfw", WITHIN).await?;
    let in_cell: Api<Instance> = space.in_cell(DFW);
    wait::gone(&in_cell, "gone-us-dfw-0", WITHIN).await?;
    for name in ["calm", "new"] {
        space.until_settled(name, 1).await?;
    }
    until_counted(federation, 0).await
}

/// Leaves objects on the other hub, as if it had served the project before: the hub namespace with a copy that the
/// project does not have any more, and an empty hub namespace of a Namespace that is gone.
async fn leave_old_objects(space: &Space<'_>, other: &Plane) -> anyhow::Result<()> {
    let hub: Api<Namespace> = Api::all(space.federation.hub().client());
    let namespaces: Api<Namespace> = Api::all(other.client());
    let labels = hub.get(&space.hub_name).await?.metadata.labels;
    let mut body = json!({"metadata": {"name": space.hub_name, "labels": labels}});
    create(&namespaces, body.clone()).await?;
    body["metadata"]["name"] = json!(EMPTY);
    body["metadata"]["labels"][labels::UPSTREAM_NAMESPACE] = json!("not-there");
    create(&namespaces, body).await?;
    let copies: Api<WorkloadDeployment> = Api::namespaced(other.client(), &space.hub_name);
    create(&copies, fixture::deployment(OLD, "DFW")).await?;
    Ok(())
}

/// Waits until the status of each WorkloadDeployment has the reason why it is held. Also waits until the projector has
/// failed to prove that the projections are unwanted.
async fn until_held(space: &Space<'_>) -> anyhow::Result<()> {
    let deployments: Api<WorkloadDeployment> = space.in_project();
    for name in ["calm-us-dfw", "gone-us-dfw", "new-us-dfw"] {
        let is_held = |deployment: &WorkloadDeployment| {
            let status = deployment.status.as_ref();
            let available = status.and_then(|it| condition::find(&it.conditions, AVAILABLE));
            available.is_some_and(|it| it.reason == HUB_CONTRADICTED)
        };
        wait::until(&deployments, name, "held", WITHIN, is_held).await?;
    }
    let workloads: Api<Workload> = space.in_project();
    let is_told = |workload: &Workload| {
        let status = workload.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        conditions.any(|it| it.reason == HUB_CONTRADICTED)
    };
    wait::until(&workloads, "calm", "told", WITHIN, is_told).await?;
    until_counted(space.federation, 3).await?;
    let (code, body) = space
        .federation
        .management()?
        .lock()
        .await
        .readiness()
        .await?;
    ensure!(
        code == 200 && body.contains(HUB_CONTRADICTED),
        "{code} {body}"
    );
    wait::eventually("all controllers have tried", WITHIN, || async {
        let metrics = space
            .federation
            .management()?
            .lock()
            .await
            .metrics()
            .await?;
        for controller in ["federator", "namespace", "projector"] {
            let failures = format!(
                r#"compute_federation_reconciles_total{{controller="{controller}",result="error"}}"#
            );
            ensure!(metrics.contains(&failures), "{failures}: {metrics}");
        }
        Ok(())
    })
    .await
}

async fn until_counted(federation: &Federation, count: usize) -> anyhow::Result<()> {
    let line = format!("compute_federation_hub_contradictions {count}");
    wait::eventually(&line, WITHIN, || async {
        let metrics = federation.management()?.lock().await.metrics().await?;
        ensure!(metrics.lines().any(|it| it == line), "{metrics}");
        Ok(())
    })
    .await
}

async fn nothing_has_changed(space: &Space<'_>, other: &Plane) -> anyhow::Result<()> {
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let going = deployments.get("gone-us-dfw").await?;
    ensure!(
        going
            .finalizers()
            .iter()
            .any(|it| it == finalizers::FEDERATOR)
    );
    ensure!(going.metadata.deletion_timestamp.is_some());
    let new = deployments.get("new-us-dfw").await?;
    ensure!(
        new.finalizers().is_empty(),
        "a WorkloadDeployment that was never on a hub has a finalizer"
    );
    for (instances, names) in [
        (space.in_project::<Instance>(), "the project"),
        (space.on_hub(), "the hub"),
        (space.in_cell(DFW), "the cell"),
    ] {
        for name in ["calm-us-dfw-0", "gone-us-dfw-0"] {
            let instance = instances.get(name).await?;
            ensure!(
                instance.metadata.deletion_timestamp.is_none(),
                "{name} in {names}"
            );
        }
    }
    // A cell knows its hub by the annotation of its Namespace.
    let hub: Api<Namespace> = Api::all(space.federation.hub().client());
    let hub = hub.get(DEFAULT_NAMESPACE).await?.uid();
    let in_cell: Api<Namespace> = Api::all(space.federation.cell(DFW).context("no cell")?.client());
    let in_cell = in_cell.get(&space.hub_name).await?;
    ensure!(in_cell.annotations().get(annotations::HUB_UID) == hub.as_ref());
    let namespaces: Api<Namespace> = Api::all(other.client());
    let namespaces = namespaces.list(&ListParams::default()).await?;
    let mut ours: Vec<_> = namespaces
        .iter()
        .filter(|it| it.name_any().starts_with("ns-"))
        .map(|it| (it.name_any(), it.metadata.deletion_timestamp.is_some()))
        .collect();
    ours.sort();
    let mut expected = [EMPTY, &space.hub_name].map(|name| (name.to_owned(), false));
    expected.sort();
    ensure!(ours == expected, "{ours:?}");
    let copies: Api<WorkloadDeployment> = Api::namespaced(other.client(), &space.hub_name);
    let copies = copies.list(&ListParams::default()).await?;
    let copies: Vec<_> = copies
        .iter()
        .map(|it| (it.name_any(), it.metadata.deletion_timestamp.is_some()))
        .collect();
    ensure!(copies == [(OLD.to_owned(), false)], "{copies:?}");
    Ok(())
}
