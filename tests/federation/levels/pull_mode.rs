//! A lower hub in pull mode.

use anyhow::ensure;
use api::condition::{self, ConditionStatus};
use api::instance::READY;
use api::reasons::instance::CELL_UNREACHABLE;
use api::{Instance, WorkloadDeployment};
use harness::federation::PullCell;
use harness::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::{
    CITY, LOWER, Layout, WEB, change_image, create_web, nothing_is_left,
    nothing_is_written_at_rest, start_with,
};
use crate::fixture::{Space, WITHIN, has_image};
use crate::freshness::is_unreachable;
use crate::pull_cells::{NOTICED, cluster_is_removed};

const LAYOUT: Layout = Layout {
    cities: &[CITY],
    cells: &["dfw.a1"],
};

/// A Workload runs below a lower hub whose agent connects to the hub. The project shows that the lower hub is away, and is
/// in step when it returns. The Workload ends on every plane. Then the lower hub is removed.
pub(crate) async fn a_lower_hub_in_pull_mode() -> anyhow::Result<()> {
    let (mut federation, config) = start_with("pull-levels", Vec::new()).await?;
    let begin = Instant::now();
    let pull = federation
        .add_pull_lower_hub(&config, LOWER, CITY, &["a1"])
        .await?;
    eprintln!(
        "lower hub ready after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    let space = Space::create(&federation, "pull").await?;
    let tested = async {
        create_web(&space, &LAYOUT).await?;
        nothing_is_written_at_rest(&federation, &LAYOUT).await?;
        away(&space, &pull).await?;
        nothing_is_left(&space, "dfw.a1").await?;
        cluster_is_removed(&space, LOWER, federation.lower_hub(LOWER)?.client()).await?;
        let in_cell: Api<Namespace> = Api::all(federation.cell("dfw.a1")?.client());
        wait::gone(&in_cell, &space.hub_name, WITHIN).await
    };
    tokio::select! {
        result = tested => result?,
        death = federation.death() => return Err(death),
    }
    federation.stop().await;
    Ok(())
}

/// The lower hub has no connection while the image changes.
async fn away(space: &Space<'_>, pull: &PullCell) -> anyhow::Result<()> {
    let in_project = space.in_project::<WorkloadDeployment>();
    let cut = pull.cut();
    let begin = Instant::now();
    wait::until(&in_project, WEB, "unreachable", NOTICED, is_unreachable).await?;
    until_all_are_unreachable(space).await?;
    eprintln!("unreachable after {:.1} s", begin.elapsed().as_secs_f64());
    change_image(space, &LAYOUT, "app:2").await?;
    let arrived = |copy: &WorkloadDeployment| {
        let sandbox = copy.spec.template.spec.runtime.sandbox.as_ref();
        sandbox.is_some_and(|it| it.containers.iter().all(|it| it.image == "app:2"))
    };
    let on_hub = space.on_hub();
    wait::until(&on_hub, WEB, "changed", WITHIN, arrived).await?;
    let in_cell = space.in_cell::<Instance>("dfw.a1");
    let in_cell = in_cell.list(&ListParams::default()).await?.items;
    ensure!(
        in_cell.len() == 2 && in_cell.iter().all(|it| has_image(it, "app:1")),
        "Instances changed"
    );

    drop(cut);
    let begin = Instant::now();
    LAYOUT
        .until_shown(space, |it| has_image(it, "app:2"))
        .await?;
    LAYOUT.until_settled(space).await?;
    eprintln!("in step after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Waits until the project shows that no Instance can be reached.
async fn until_all_are_unreachable(space: &Space<'_>) -> anyhow::Result<()> {
    let instances = space.in_project::<Instance>();
    wait::eventually("all Instances are unreachable", WITHIN, || async {
        let shown = instances.list(&ListParams::default()).await?.items;
        ensure!(shown.len() == 2, "{} Instances", shown.len());
        for instance in shown {
            let status = instance.status.as_ref();
            let ready = status.and_then(|it| condition::find(&it.conditions, READY));
            let is_unknown = |it: &condition::Condition| {
                it.status == ConditionStatus::Unknown && it.reason == CELL_UNREACHABLE
            };
            ensure!(
                ready.is_some_and(is_unknown),
                "{}: {ready:?}",
                instance.name_any()
            );
        }
        Ok(())
    })
    .await
}
