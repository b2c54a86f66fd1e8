//! A dead cell below a lower hub.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition::{self, ConditionStatus};
use api::instance::READY;
use api::karmada::{Cluster, cluster};
use api::labels::SOURCE_CLUSTER;
use api::reasons::instance::CELL_UNREACHABLE;
use api::workload_deployment::CELLS_REPORTING;
use api::{Instance, LowerHub, LowerHubStatus, WorkloadDeployment};
use harness::{Federation, wait};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::{CITY, CLUSTERS_BELOW, LOWER, start};
use crate::fixture::{Space, WITHIN};
use crate::freshness::is_available_in_part;

/// The cell that dies, and the name of its Cluster on the lower hub.
const DEAD: &str = "dfw.a2";
const DEAD_CLUSTER: &str = "a2";
/// The WorkloadDeployment of the Workload.
const WEB: &str = "web-all-dfw";
/// Time limit from the observed change of the Cluster on the lower hub to the Instances in the project.
const OURS: Duration = Duration::from_secs(3);

/// The lower hub reports the cell. The project shows which Instances cannot be reached, and those of the other cell stay
/// ready.
pub(crate) async fn a_dead_cell_below() -> anyhow::Result<()> {
    let mut federation = start("dead-cell-below").await?;
    let result = async {
        let space = Space::create(&federation, "below").await?;
        let placements: &[(&str, &[&str], i32)] = &[("all", &[CITY], 1)];
        space.create_workload("web", placements).await?;
        space.until_settled("web", 2).await?;
        let (instances, deployments) = (space.in_project(), space.in_project());
        dies_and_returns(&mut federation, &instances, &deployments).await
    }
    .await;
    result?;
    federation.stop().await;
    Ok(())
}

async fn dies_and_returns(
    federation: &mut Federation,
    instances: &Api<Instance>,
    deployments: &Api<WorkloadDeployment>,
) -> anyhow::Result<()> {
    let lower_hubs: Api<LowerHub> = Api::all(federation.hub().client());
    let clusters: Api<Cluster> = Api::all(federation.lower_hub(LOWER)?.client());
    until_reported(&lower_hubs, [true, true]).await?;

    let begin = Instant::now();
    federation.cell_mut(DEAD)?.kill_apiserver().await;
    let is_dead = |it: &Cluster| !is_ready(it);
    wait::until(&clusters, DEAD_CLUSTER, "not ready", WITHIN, is_dead).await?;
    let seen = Instant::now();
    let unreachable = until_shown_ready(instances, ConditionStatus::Unknown).await?;
    let (all, ours) = (begin.elapsed(), seen.elapsed());
    eprintln!(
        "dead cell below: shown after {all:.1?}, {ours:.1?} of them after the lower hub knew"
    );
    ensure!(ours <= OURS, "{ours:?}");
    let ready = condition::find(&unreachable.status.context("no status")?.conditions, READY)
        .cloned()
        .context("no Ready")?;
    ensure!(
        ready.reason == CELL_UNREACHABLE && ready.message.contains(DEAD),
        "{ready:?}"
    );
    until_reported(&lower_hubs, [true, false]).await?;
    let in_part = |it: &WorkloadDeployment| is_available_in_part(it) && names_dead_cell(it);
    wait::until(deployments, WEB, "available in part", WITHIN, in_part).await?;

    // Processes that start meanwhile know the same, and write nothing.
    let manager = federation.lower_hub_manager(LOWER)?;
    let version = lower_hubs.get(LOWER).await?.resource_version();
    manager.lock().await.terminate().await;
    manager.lock().await.restart().await?;
    federation.management()?.lock().await.terminate().await;
    federation.management()?.lock().await.restart().await?;
    until_shown_ready(instances, ConditionStatus::Unknown).await?;
    let later = lower_hubs.get(LOWER).await?.resource_version();
    ensure!(later == version, "written again");

    federation.cell_mut(DEAD)?.restart_apiserver().await?;
    until_shown_ready(instances, ConditionStatus::True).await?;
    let is_whole = |it: &WorkloadDeployment| !is_available_in_part(it) && !names_dead_cell(it);
    wait::until(deployments, WEB, "available", WITHIN, is_whole).await?;
    until_reported(&lower_hubs, [true, true]).await
}

/// Returns whether `CellsReporting` says that the dead cell, and no other, cannot be reached.
fn names_dead_cell(deployment: &WorkloadDeployment) -> bool {
    let status = deployment.status.as_ref();
    let reporting = status.and_then(|it| condition::find(&it.conditions, CELLS_REPORTING));
    reporting.is_some_and(|it| it.message.contains(DEAD) && !it.message.contains("dfw.a1"))
}

fn is_ready(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|it| condition::find(&it.conditions, cluster::READY));
    ready.is_some_and(api::Condition::is_true)
}

/// Waits until the LowerHub says which of the cells `a1` and `a2` are ready.
async fn until_reported(lower_hubs: &Api<LowerHub>, ready: [bool; 2]) -> anyhow::Result<()> {
    let is_reported = |status: &LowerHubStatus| {
        let cells = status.cells.iter().map(|it| (it.name.as_str(), it.ready));
        cells.eq(CLUSTERS_BELOW.into_iter().zip(ready))
    };
    let is_so = |it: &LowerHub| it.status.as_ref().is_some_and(is_reported);
    wait::until(lower_hubs, LOWER, "reported", WITHIN, is_so).await?;
    Ok(())
}

/// Waits until the Instance of the dead cell has this status of `Ready`, and that of the other cell is ready. Returns the
/// former.
async fn until_shown_ready(
    instances: &Api<Instance>,
    expected: ConditionStatus,
) -> anyhow::Result<Instance> {
    wait::eventually("Instances are shown", WITHIN, || async {
        let shown = instances.list(&ListParams::default()).await?.items;
        ensure!(shown.len() == 2, "{} Instances", shown.len());
        let mut dead = None;
        for instance in shown {
            let is_dead = instance
                .labels()
                .get(SOURCE_CLUSTER)
                .is_some_and(|it| it == DEAD);
            let status = instance.status.as_ref();
            let ready = status.and_then(|it| condition::find(&it.conditions, READY));
            let wanted = if is_dead {
                expected
            } else {
                ConditionStatus::True
            };
            ensure!(
                ready.is_some_and(|ready| ready.status == wanted),
                "{}: {ready:?}",
                instance.name_any()
            );
            if is_dead {
                dead = Some(instance);
            }
        }
        dead.context("no Instance of the dead cell")
    })
    .await
}
