//! A lower hub below a lower hub.

use api::WorkloadDeployment;
use harness::{Federation, wait};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::json;
use tokio::time::Instant;

use super::dead_cell::{DyingCell, dies_and_returns};
use super::{
    CITY, LOWER, Layout, WEB, a_change_reaches_the_cells_below, a_missing_label_is_repaired,
    add_lower_hub, create_web, nothing_is_left, nothing_is_written_at_rest, silent_process,
    start_with, the_hub_names_the_cells, until_namespace_is_gone,
};
use crate::fixture::{Space, WITHIN, is_settled, patch};

/// The lowest hub, and its Cluster on the lower hub.
const LOWEST: &str = "dfw.mid";
const CLUSTER: &str = "mid";
/// The cells at first, and with the lowest hub.
const AT_FIRST: Layout = Layout {
    cities: &[CITY],
    cells: &["dfw.b1"],
};
const THREE_LEVELS: Layout = Layout {
    cities: &[CITY],
    cells: &["dfw.b1", "dfw.mid.a1"],
};
/// The lowest cell dies, or the lowest hub.
const DYING: DyingCell = DyingCell {
    name: "dfw.mid.a1",
    killed: "dfw.mid.a1",
    other: "dfw.b1",
    instances: 2,
};
const CUT_OFF: DyingCell = DyingCell {
    killed: LOWEST,
    ..DYING
};

/// While a Workload runs in the cell of a lower hub, this lower hub gets a lower hub of its own. The Workload runs in the
/// cell there too, is changed, and ends on every plane. The project shows that the process of the lowest hub is silent,
/// and that the lowest cell or its hub is dead.
pub(crate) async fn three_levels() -> anyhow::Result<()> {
    let (mut federation, config) = start_with("three-levels", Vec::new()).await?;
    add_lower_hub(&mut federation, &config, LOWER, &["b1"]).await?;
    let space = Space::create(&federation, "three").await?;
    create_web(&space, &AT_FIRST).await?;
    let Space { name, hub_name, .. } = space;

    // As `docs/operate/lower-hub.md` says.
    leave_out(&federation, &[CLUSTER]).await?;
    add_lower_hub(&mut federation, &config, LOWEST, &["a1"]).await?;
    leave_out(&federation, &[]).await?;
    let space = space_of(&federation, &name, &hub_name);
    let tested = async {
        runs_in_the_lowest_cell(&space).await?;
        a_change_reaches_the_cells_below(&space, &THREE_LEVELS).await?;
        let instances = 2 * 2;
        let is_current = |it: &WorkloadDeployment| is_settled(it, instances);
        wait::until(&space.in_project(), WEB, "current", WITHIN, is_current).await?;
        let clusters = Api::all(federation.lower_hub(LOWER)?.client());
        a_missing_label_is_repaired(&space, &clusters, CLUSTER).await?;
        nothing_is_written_at_rest(&federation, &THREE_LEVELS).await?;
        silent_process::below_is_shown_until_it_runs(&federation, &space, [CLUSTER, LOWEST]).await
    };
    tokio::select! {
        result = tested => result?,
        death = federation.death() => return Err(death),
    }
    let (instances, deployments) = (space.in_project(), space.in_project());
    for cell in [&DYING, &CUT_OFF] {
        dies_and_returns(&mut federation, &instances, &deployments, cell).await?;
    }
    let space = space_of(&federation, &name, &hub_name);
    nothing_is_left(&space, DYING.name).await?;
    until_namespace_is_gone(&space).await?;
    federation.stop().await;
    Ok(())
}

fn space_of<'f>(federation: &'f Federation, name: &str, hub_name: &str) -> Space<'f> {
    let (name, hub_name) = (name.to_owned(), hub_name.to_owned());
    Space {
        federation,
        name,
        hub_name,
    }
}

/// Leaves these Clusters out of the policy of the lower hub.
pub(super) async fn leave_out(federation: &Federation, clusters: &[&str]) -> anyhow::Result<()> {
    let lower = federation.lower_hub(LOWER)?.client();
    let policy = GroupVersionKind::gvk("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy");
    let policies: Api<DynamicObject> = Api::all_with(lower, &ApiResource::from_gvk(&policy));
    let affinity = json!({"spec": {"placement": {"clusterAffinity": {"exclude": clusters}}}});
    patch(&policies, "compute-cells-below", affinity)
        .await
        .map(drop)
}

/// The existing Workload gets Instances in the lowest cell. The status on the hub and the Instances in the project name
/// this cell.
async fn runs_in_the_lowest_cell(space: &Space<'_>) -> anyhow::Result<()> {
    let begin = Instant::now();
    THREE_LEVELS.until_settled(space).await?;
    eprintln!(
        "settled in the lowest cell after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    the_hub_names_the_cells(space, THREE_LEVELS.cells).await?;
    THREE_LEVELS.until_shown(space, |_| true).await.map(drop)
}
