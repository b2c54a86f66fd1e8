//! A dead cell below a lower hub.

use anyhow::{Context, ensure};
use api::condition::{self, ConditionStatus};
use api::identity::CLUSTER_SEPARATOR;
use api::instance::READY;
use api::karmada::{Cluster, cluster};
use api::labels::SOURCE_CLUSTER;
use api::reasons::instance::CELL_UNREACHABLE;
use api::workload_deployment::CELLS_REPORTING;
use api::{Instance, LowerHub, LowerHubStatus, WorkloadDeployment};
use harness::{Federation, wait};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use std::iter;
use std::time::Duration;
use tokio::time::Instant;

use super::{CITY, LOWER, WEB, no_cell_selected, silent_process, start};
use crate::fixture::{Space, WITHIN};
use crate::freshness::is_available_in_part;

/// First, the process of the lower hub is silent for some time, and then its policy selects no cell for some time. Then a
/// cell dies, and the lower hub reports it. The project shows which Instances cannot be reached, and those of the other cell stay
/// ready.
pub(crate) async fn a_dead_cell_below() -> anyhow::Result<()> {
    let mut federation = start("dead-cell-below").await?;
    let result = async {
        let space = Space::create(&federation, "below").await?;
        let placements: &[(&str, &[&str], i32)] = &[("all", &[CITY], 1)];
        space.create_workload("web", placements).await?;
        space.until_settled("web", 2).await?;
        silent_process::is_shown_until_it_runs(&federation, &space).await?;
        no_cell_selected::has_no_instances(&federation, &space).await?;
        let (instances, deployments) = (space.in_project(), space.in_project());
        dies_and_returns(&mut federation, &instances, &deployments, &DYING).await
    }
    .await;
    result?;
    federation.stop().await;
    Ok(())
}

/// A cell that cannot be reached, and the other cell below the lower hub of the hub.
pub(super) struct DyingCell {
    pub(super) name: &'static str,
    /// The plane that dies: the cell, or a lower hub that leads to it.
    pub(super) killed: &'static str,
    pub(super) other: &'static str,
    /// Instances of each cell.
    pub(super) instances: usize,
}

const DYING: DyingCell = DyingCell {
    name: "dfw.a2",
    killed: "dfw.a2",
    other: "dfw.a1",
    instances: 1,
};

impl DyingCell {
    /// Returns the lower hub that has the Cluster of the killed plane, and the name of the Cluster.
    fn cluster(&self) -> anyhow::Result<(&str, &str)> {
        let split = self.killed.rsplit_once(CLUSTER_SEPARATOR);
        split.with_context(|| format!("{} is not below a lower hub", self.killed))
    }

    /// Returns all lower hubs that lead to the killed plane.
    fn lower_hubs(&self) -> impl Iterator<Item = &str> {
        let ends = self.killed.match_indices(CLUSTER_SEPARATOR);
        ends.map(|(end, _)| &self.killed[..end])
    }

    /// Returns whether `CellsReporting` says that this cell, and no other, cannot be reached.
    pub(super) fn is_named(&self, deployment: &WorkloadDeployment) -> bool {
        let status = deployment.status.as_ref();
        let reporting = status.and_then(|it| condition::find(&it.conditions, CELLS_REPORTING));
        reporting
            .is_some_and(|it| it.message.contains(self.name) && !it.message.contains(self.other))
    }

    /// Waits until the LowerHub of the hub says that the other cell is ready, and whether this one is.
    pub(super) async fn until_reported(
        &self,
        lower_hubs: &Api<LowerHub>,
        ready: bool,
        within: Duration,
    ) -> anyhow::Result<()> {
        let mut expected = [(self.name, ready), (self.other, true)];
        expected.sort_unstable();
        let is_reported = |status: &LowerHubStatus| {
            let cells = status.cells.iter();
            let cells =
                cells.map(|it| (format!("{LOWER}{CLUSTER_SEPARATOR}{}", it.name), it.ready));
            cells.eq(expected.map(|(name, ready)| (name.to_owned(), ready)))
        };
        let is_so = |it: &LowerHub| it.status.as_ref().is_some_and(is_reported);
        wait::until(lower_hubs, LOWER, "reported", within, is_so).await?;
        Ok(())
    }

    /// Waits until the Instances of this cell have this status of `Ready`, and those of the other cell are ready. Returns
    /// one of the former.
    pub(super) async fn until_shown_ready(
        &self,
        instances: &Api<Instance>,
        expected: ConditionStatus,
    ) -> anyhow::Result<Instance> {
        wait::eventually("Instances are shown", WITHIN, || async {
            let shown = instances.list(&ListParams::default()).await?.items;
            let (dying, others): (Vec<_>, Vec<_>) = shown.into_iter().partition(|instance| {
                let cell = instance.labels().get(SOURCE_CLUSTER);
                cell.is_some_and(|it| it == self.name)
            });
            let counts = [dying.len(), others.len()];
            ensure!(counts == [self.instances; 2], "{counts:?} Instances");
            let wanted = iter::repeat_n(expected, dying.len());
            let wanted = wanted.chain(iter::repeat(ConditionStatus::True));
            for (instance, wanted) in dying.iter().chain(&others).zip(wanted) {
                let status = instance.status.as_ref();
                let ready = status.and_then(|it| condition::find(&it.conditions, READY));
                ensure!(
                    ready.is_some_and(|ready| ready.status == wanted),
                    "{}: {ready:?}",
                    instance.name_any()
                );
            }
            dying.into_iter().next().context("no Instance")
        })
        .await
    }
}

/// An API server is killed. It starts again after the processes that report the cell were restarted.
pub(super) async fn dies_and_returns(
    federation: &mut Federation,
    instances: &Api<Instance>,
    deployments: &Api<WorkloadDeployment>,
    cell: &DyingCell,
) -> anyhow::Result<()> {
    let (hub, cluster) = cell.cluster()?;
    let lower_hubs: Api<LowerHub> = Api::all(federation.hub().client());
    let clusters: Api<Cluster> = Api::all(federation.lower_hub(hub)?.client());
    cell.until_reported(&lower_hubs, true, WITHIN).await?;

    let begin = Instant::now();
    federation.plane_mut(cell.killed)?.kill_apiserver().await;
    let is_dead = |it: &Cluster| !is_ready(it);
    wait::until(&clusters, cluster, "not ready", WITHIN, is_dead).await?;
    let seen = Instant::now();
    let unreachable = cell
        .until_shown_ready(instances, ConditionStatus::Unknown)
        .await?;
    let (all, ours) = (begin.elapsed(), seen.elapsed());
    let killed = cell.killed;
    eprintln!("{killed} is dead: shown after {all:.1?}, {ours:.1?} of them after {hub} knew");
    let ready = condition::find(&unreachable.status.context("no status")?.conditions, READY)
        .cloned()
        .context("no Ready")?;
    ensure!(
        ready.reason == CELL_UNREACHABLE && ready.message.contains(cell.name),
        "{ready:?}"
    );
    cell.until_reported(&lower_hubs, false, WITHIN).await?;
    let in_part = |it: &WorkloadDeployment| is_available_in_part(it) && cell.is_named(it);
    wait::until(deployments, WEB, "available in part", WITHIN, in_part).await?;

    // Processes that start meanwhile know the same, and write nothing.
    let version = lower_hubs.get(LOWER).await?.resource_version();
    for name in cell.lower_hubs() {
        let manager = federation.lower_hub_manager(name)?;
        manager.lock().await.terminate().await;
        manager.lock().await.restart().await?;
    }
    federation.management()?.lock().await.terminate().await;
    federation.management()?.lock().await.restart().await?;
    cell.until_shown_ready(instances, ConditionStatus::Unknown)
        .await?;
    let later = lower_hubs.get(LOWER).await?.resource_version();
    ensure!(later == version, "written again");

    let killed = federation.plane_mut(cell.killed)?;
    killed.restart_apiserver().await?;
    let begin = Instant::now();
    cell.until_shown_ready(instances, ConditionStatus::True)
        .await?;
    let is_whole = |it: &WorkloadDeployment| !is_available_in_part(it) && !cell.is_named(it);
    wait::until(deployments, WEB, "available", WITHIN, is_whole).await?;
    eprintln!("returned after {:.1?}", begin.elapsed());
    cell.until_reported(&lower_hubs, true, WITHIN).await
}

fn is_ready(cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let ready = status.and_then(|it| condition::find(&it.conditions, cluster::READY));
    ready.is_some_and(api::Condition::is_true)
}
