//! A pull cell is removed, as `docs/operate/pull-cell.md` says.

use anyhow::ensure;
use api::karmada::Cluster;
use api::labels::CITY_CODE;
use api::{Instance, Workload, WorkloadDeployment};
use harness::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::{CITY, FAR, start};
use crate::fixture::{
    Space, WITHIN, dynamic, has_image, image_change, is_ready, patch, until_none,
};
use crate::kubectl::kubectl;

/// Selects what Karmada has made in a cell.
const OF_KARMADA: &str = "karmada.io/managed=true";

/// More namespaces in the cell, so that the agent has not ended all Works before its rights could be gone.
const NAMESPACES: usize = 20;

/// A pull cell leaves its city while a Workload runs there, and its Cluster is deleted. Nothing is left in the cell. The
/// Workload goes on in the other cell.
pub(crate) async fn a_cell_is_removed() -> anyhow::Result<()> {
    let (federation, _pull) = start("pull-removed").await?;
    let space = Space::create(&federation, "removed").await?;
    space
        .create_workload("web", &[("all", &[CITY, "DFW"], 1)])
        .await?;
    space.until_settled("web", 2).await?;
    let in_cell: Api<Namespace> = Api::all(federation.cell(FAR)?.client());
    for _ in 0..NAMESPACES {
        let other = Space::on_hub_alone(&federation, "removed").await?;
        wait::until(&in_cell, &other.hub_name, "there", WITHIN, |_| true).await?;
    }

    let clusters: Api<Cluster> = Api::all(federation.hub().client());
    let nowhere = json!({"metadata": {"labels": {CITY_CODE: null}}});
    patch(&clusters, FAR, nowhere).await?;
    let cell = federation.cell(FAR)?.client();
    until_none::<WorkloadDeployment>(&cell, &space.hub_name).await?;
    until_none::<Instance>(&cell, &space.hub_name).await?;
    space
        .until_instances(space.in_project(), &["web-all-dfw-0"])
        .await?;
    cluster_is_removed(&space, FAR, cell).await?;

    let change = image_change("app:2");
    patch::<Workload>(&space.in_project(), "web", change).await?;
    let is_changed = |it: &Instance| has_image(it, "app:2") && is_ready(it);
    let shown = space.in_project();
    wait::until(&shown, "web-all-dfw-0", "changed", WITHIN, is_changed).await?;
    space.delete_workload("web").await?;
    space.until_empty().await?;
    federation.stop().await;
    Ok(())
}

/// Deletes the Cluster of a pull cell, or of a lower hub in pull mode, that has no WorkloadDeployments. The agent deletes
/// the namespaces there and ends its Works. Its rights stay until then, and hold up nothing else.
pub(crate) async fn cluster_is_removed(
    space: &Space<'_>,
    name: &str,
    cell: Client,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let shown = |what| eprintln!("{what} after {:.1} s", begin.elapsed().as_secs_f64());
    let hub = space.federation.hub().client();
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let namespaces: Api<Namespace> = Api::all(cell);
    let works_in = format!("karmada-es-{name}");
    let made = ListParams::default().labels(OF_KARMADA);
    let before = namespaces.list(&made).await?;
    ensure!(
        before.iter().any(|it| it.name_any() == space.hub_name),
        "{} is not in the cell",
        space.hub_name
    );

    clusters.delete(name, &DeleteParams::default()).await?;
    let works = dynamic(
        hub.clone(),
        &works_in,
        "work.karmada.io",
        "v1alpha1",
        "Work",
    );
    wait::eventually("no Works", WITHIN, || async {
        let left = works.list(&ListParams::default()).await?.items;
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await?;
    shown("Works gone");
    wait::eventually("no namespaces in the cell", WITHIN, || async {
        let left = namespaces.list(&made).await?.items;
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await?;
    shown("namespaces of the cell gone");

    let of_works = format!("--namespace={works_in}");
    let patch = ["patch", "--type=merge", &of_works];
    let rights = ["role/compute-agent", "rolebinding/compute-agent"];
    let no_finalizers = r#"--patch={"metadata": {"finalizers": null}}"#;
    let args = [&patch[..], &rights, &[no_finalizers]].concat();
    let patched = kubectl(space.federation.hub().kubeconfig(), &args, None).await?;
    ensure!(patched.status.success(), "{patched:?}");
    wait::gone(&clusters, name, WITHIN).await?;
    let of_hub: Api<Namespace> = Api::all(hub);
    wait::gone(&of_hub, &works_in, WITHIN).await?;
    shown("Cluster gone");
    Ok(())
}
