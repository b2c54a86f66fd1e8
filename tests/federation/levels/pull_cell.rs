//! A cell in pull mode below a lower hub.

use anyhow::ensure;
use api::condition::ConditionStatus;
use api::{Instance, LowerHub, WorkloadDeployment};
use harness::federation::PullCell;
use harness::{CellConfig, wait};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::dead_cell::DyingCell;
use super::{
    CELLS_BELOW, CITY, LOWER, Layout, WEB, add_lower_hub, change_image, create_web,
    nothing_is_left, nothing_is_written_at_rest, start_with, the_hub_names_the_cells,
};
use crate::fixture::{Space, WITHIN, has_image};
use crate::freshness::is_available_in_part;
use crate::pull_cells::{NOTICED, answers};

const LAYOUT: Layout = Layout {
    cities: &[CITY],
    cells: &CELLS_BELOW,
};
/// The pull cell, and the push cell beside it.
const FAR: DyingCell = DyingCell {
    name: "dfw.a2",
    killed: "dfw.a2",
    other: "dfw.a1",
    instances: 2,
};

/// A Workload runs in a push cell and in a pull cell of a lower hub. The project shows that the pull cell is away, and is in
/// step when it returns. The Workload ends on every plane.
pub(crate) async fn a_pull_cell_below() -> anyhow::Result<()> {
    let (mut federation, config) = start_with("pull-below", Vec::new()).await?;
    add_lower_hub(&mut federation, &config, LOWER, &["a1"]).await?;
    let far = CellConfig::new(FAR.name, CITY);
    let pull = federation.add_pull_cell(&config, &far).await?;
    let space = Space::create(&federation, "far").await?;
    let tested = async {
        create_web(&space, &LAYOUT).await?;
        the_hub_names_the_cells(&space, LAYOUT.cells).await?;
        let asked = answers(&pull.interpreter_metrics().await?, "InterpretStatus");
        ensure!(asked > 0.0, "the interpreter of the cell was not asked");
        nothing_is_written_at_rest(&federation, &LAYOUT).await?;
        away(&space, &pull).await?;
        nothing_is_left(&space, FAR.name).await
    };
    tokio::select! {
        result = tested => result?,
        death = federation.death() => return Err(death),
    }
    federation.stop().await;
    Ok(())
}

/// The pull cell has no connection while the image changes.
async fn away(space: &Space<'_>, pull: &PullCell) -> anyhow::Result<()> {
    let lower_hubs: Api<LowerHub> = Api::all(space.federation.hub().client());
    let instances = space.in_project::<Instance>();
    let deployments = space.in_project::<WorkloadDeployment>();
    let in_cell = space.in_cell::<Instance>(FAR.name);
    let running = uids(&in_cell).await?;
    let cut = pull.cut();
    let begin = Instant::now();
    FAR.until_reported(&lower_hubs, false, NOTICED).await?;
    FAR.until_shown_ready(&instances, ConditionStatus::Unknown)
        .await?;
    let in_part = |it: &WorkloadDeployment| is_available_in_part(it) && FAR.is_named(it);
    wait::until(&deployments, WEB, "available in part", WITHIN, in_part).await?;
    eprintln!("unreachable after {:.1} s", begin.elapsed().as_secs_f64());
    change_image(space, &LAYOUT, "app:2").await?;
    let in_other = space.in_cell::<Instance>(FAR.other);
    wait::eventually("the other cell has the change", WITHIN, || async {
        let there = in_other.list(&ListParams::default()).await?.items;
        let is_new = there.len() == 2 && there.iter().all(|it| has_image(it, "app:2"));
        ensure!(is_new, "{there:?}");
        Ok(())
    })
    .await?;
    ensure!(uids(&in_cell).await? == running, "Instances changed");

    drop(cut);
    let begin = Instant::now();
    LAYOUT
        .until_shown(space, |it| has_image(it, "app:2"))
        .await?;
    LAYOUT.until_settled(space).await?;
    let is_whole = |it: &WorkloadDeployment| !is_available_in_part(it) && !FAR.is_named(it);
    wait::until(&deployments, WEB, "available", WITHIN, is_whole).await?;
    eprintln!("in step after {:.1} s", begin.elapsed().as_secs_f64());
    FAR.until_reported(&lower_hubs, true, WITHIN).await
}

async fn uids(instances: &Api<Instance>) -> anyhow::Result<Vec<Option<String>>> {
    let all = instances.list(&ListParams::default()).await?;
    Ok(all.iter().map(ResourceExt::uid).collect())
}
