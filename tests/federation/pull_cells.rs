//! Tests of a cell in pull mode that loses its connection to the hub for minutes. The agent of the cell asks the
//! interpreter of the cell.

#[path = "pull_cells/removal.rs"]
mod removal;
#[path = "pull_cells/rights.rs"]
mod rights;
#[path = "pull_cells/rotation.rs"]
mod rotation;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::karmada::{Cluster, ResourceBinding};
use api::labels::CITY_CODE;
use api::{Instance, Workload, WorkloadDeployment};
use harness::federation::PullCell;
use harness::{CellConfig, Federation, networking, wait};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::fixture::{self, ORD, Space, WITHIN, create, deployment, is_settled, patch};
use crate::freshness::{is_available_in_part, is_unreachable};
pub(crate) use removal::{a_cell_is_removed, cluster_is_removed};

/// The pull cell.
const FAR: &str = "lax1";
const CITY: &str = "LAX";

/// How long the cell is without its connection.
const AWAY: Duration = Duration::from_mins(3);
/// The same in the soak.
const LONG_AWAY: Duration = Duration::from_hours(1);
/// Time limit until Karmada notices that a cell says nothing: 40 s and its interval.
pub(crate) const NOTICED: Duration = Duration::from_secs(75);
/// Time limit from the return of the connection until the cell and the project are in step.
const IN_STEP: Duration = Duration::from_secs(10);
/// Time limit for an agent without its hub to end.
const AGENT_ENDS: Duration = Duration::from_mins(1);

const WEB: &str = "web-far-lax";
/// Deployments that end, begin, and are replaced by another one of the same name while the cell is away.
const GONE: &str = "gone";
const LATE: &str = "late";
const ANEW: &str = "anew";
/// A Workload that is deleted while the cell is away, and its deployment.
const ENDING: &str = "ending";
const OF_ENDING: &str = "ending-far-lax";
/// Replicas of `WEB` at the end.
const REPLICAS: i32 = 3;

/// Starts a federation with two push cells and a pull cell.
async fn start(label: &str) -> anyhow::Result<(Federation, PullCell)> {
    let config = fixture::config(label)?;
    let mut federation = fixture::start_from(&config).await?;
    let far = CellConfig::new(FAR, CITY);
    networking::offer_city(&federation.project().client(), "lax", CITY).await?;
    let pull = federation.add_pull_cell(&config, &far).await?;
    Ok((federation, pull))
}

/// The hub's objects change while the cell is away. What runs in the cell goes on, the project says that the cell is
/// unreachable, and after the return everything is in step.
pub(crate) async fn a_cell_that_is_away() -> anyhow::Result<()> {
    let (federation, mut pull) = start("pull").await?;
    let space = Space::create(&federation, "away").await?;
    create_all(&space).await?;
    rights::the_agent_has_only_its_own(&federation).await?;
    away(&space, &pull, AWAY).await?;
    restarts(&space, &mut pull).await?;
    rotation::without_a_failed_call(&federation, &space, &mut pull).await?;
    delete_all(&space).await?;
    federation.stop().await;
    Ok(())
}

/// As [`a_cell_that_is_away`], for an hour.
pub(crate) async fn an_hour_away() -> anyhow::Result<()> {
    let (federation, pull) = start("pull-long").await?;
    let space = Space::create(&federation, "away").await?;
    create_all(&space).await?;
    away(&space, &pull, LONG_AWAY).await?;
    delete_all(&space).await?;
    federation.stop().await;
    Ok(())
}

/// Creates everything that is in the cell before it is away.
async fn create_all(space: &Space<'_>) -> anyhow::Result<()> {
    let placements: [(&str, &[&str], i32); 2] = [("far", &[CITY], 1), ("near", &["DFW"], 1)];
    space.create_workload("web", &placements).await?;
    space
        .create_workload(ENDING, &[("far", &[CITY], 1)])
        .await?;
    space.until_settled("web", 2).await?;
    space.until_settled(ENDING, 1).await?;
    let in_project = space.in_project::<WorkloadDeployment>();
    for name in [GONE, ANEW] {
        create(&in_project, deployment(name, CITY)).await?;
        settled(&in_project, name, 1, WITHIN).await?;
    }
    Ok(())
}

/// Cuts the cell off for this time, while the hub's objects change.
async fn away(space: &Space<'_>, pull: &PullCell, time: Duration) -> anyhow::Result<()> {
    let (in_project, in_cell) = (
        space.in_project::<WorkloadDeployment>(),
        space.in_cell::<WorkloadDeployment>(FAR),
    );
    let running = uids(&space.in_cell(FAR)).await?;
    let former = in_cell.get(ANEW).await?.uid();

    let cut = pull.cut();
    let begin = Instant::now();
    for name in [WEB, GONE, ANEW, OF_ENDING] {
        let what = "unreachable";
        wait::until(&in_project, name, what, NOTICED, is_unreachable).await?;
    }
    eprintln!("unreachable after {:.1} s", begin.elapsed().as_secs_f64());
    change(space).await?;
    drift_is_undone(&in_cell, pull).await?;
    another_cell_comes_and_goes(space).await?;
    create(&in_project, deployment(LATE, CITY)).await?;
    let bindings: Api<ResourceBinding> = space.on_hub();
    let name = format!("{LATE}-workloaddeployment");
    let placed = |binding: &ResourceBinding| is_placed(binding, &[FAR]);
    wait::until(
        &bindings,
        &name,
        "placed in the absent cell",
        WITHIN,
        placed,
    )
    .await?;
    wait::until(&in_project, LATE, "unreachable", WITHIN, is_unreachable).await?;
    for name in [GONE, ANEW] {
        in_project.delete(name, &DeleteParams::default()).await?;
        wait::gone(&in_project, name, WITHIN).await?;
    }
    create(&in_project, deployment(ANEW, CITY)).await?;
    space.delete_workload(ENDING).await?;
    sleep_until(begin + time).await;

    // The Instances run on, and the status does not count as that of the current generation.
    ensure!(
        uids(&space.in_cell(FAR)).await? == running,
        "Instances changed"
    );
    let web = in_project.get(WEB).await?;
    ensure!(is_unreachable(&web), "{web:?}");
    let observed = web.status.as_ref().and_then(|it| it.observed_generation);
    ensure!(observed < web.metadata.generation, "{web:?}");

    let back = Instant::now();
    drop(cut);
    let shown =
        |what: &'static str| eprintln!("{what} after {:.1} s", back.elapsed().as_secs_f64());
    tokio::try_join!(
        async {
            settled(&in_project, WEB, REPLICAS, IN_STEP).await?;
            shown("changed");
            anyhow::Ok(())
        },
        async {
            settled(&in_project, LATE, 1, IN_STEP).await?;
            shown("new");
            anyhow::Ok(())
        },
        async {
            settled(&in_project, ANEW, 1, IN_STEP).await?;
            shown("created again");
            anyhow::Ok(())
        },
        async {
            wait::gone(&in_cell, GONE, IN_STEP).await?;
            shown("deleted");
            anyhow::Ok(())
        },
        async {
            wait::gone(&in_cell, OF_ENDING, IN_STEP).await?;
            shown("deleted with its Workload");
            anyhow::Ok(())
        },
    )?;
    ensure!(
        in_cell.get(ANEW).await?.uid() != former,
        "{ANEW} is the former object"
    );
    space.until_settled("web", REPLICAS + 1).await.map(drop)
}

async fn delete_all(space: &Space<'_>) -> anyhow::Result<()> {
    let in_project = space.in_project::<WorkloadDeployment>();
    for name in [LATE, ANEW] {
        in_project.delete(name, &DeleteParams::default()).await?;
    }
    space.delete_workload("web").await?;
    space.until_empty().await
}

fn is_placed(binding: &ResourceBinding, cells: &[&str]) -> bool {
    let clusters = binding.spec.clusters.iter();
    let placed: BTreeSet<_> = clusters.map(|it| it.name.as_str()).collect();
    placed.iter().eq(cells)
}

/// While the cell is away, another cell joins its city, runs the deployment too, and leaves the city again.
async fn another_cell_comes_and_goes(space: &Space<'_>) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(space.federation.hub().client());
    let (bindings, in_project) = (
        space.on_hub::<ResourceBinding>(),
        space.in_project::<WorkloadDeployment>(),
    );
    let name = format!("{WEB}-workloaddeployment");
    for (city, cells) in [(CITY, &[FAR, ORD][..]), ("ORD", &[FAR])] {
        let label = json!({"metadata": {"labels": {CITY_CODE: city}}});
        patch(&clusters, ORD, label).await?;
        let placed = |binding: &ResourceBinding| is_placed(binding, cells);
        wait::until(&bindings, &name, "placed", WITHIN, placed).await?;
        let as_it_is = |deployment: &WorkloadDeployment| {
            let status = deployment.status.as_ref();
            let ready = status.map_or(0, |status| status.ready_replicas);
            match cells.contains(&ORD) {
                true => is_available_in_part(deployment) && ready == 1 + REPLICAS,
                false => is_unreachable(deployment) && ready == 1,
            }
        };
        wait::until(&in_project, WEB, "shown", WITHIN, as_it_is).await?;
    }
    let in_other = space.in_cell::<WorkloadDeployment>(ORD);
    wait::gone(&in_other, WEB, WITHIN).await
}

async fn settled(
    api: &Api<WorkloadDeployment>,
    name: &str,
    replicas: i32,
    within: Duration,
) -> anyhow::Result<()> {
    let is_settled = |deployment: &WorkloadDeployment| is_settled(deployment, replicas);
    let found = wait::until(api, name, "settled", within, is_settled).await;
    found.map(drop)
}

/// Returns the names and UIDs of the Instances of a namespace.
async fn uids(api: &Api<Instance>) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let all = api.list(&ListParams::default()).await?;
    Ok(all.iter().map(|it| (it.name_any(), it.uid())).collect())
}

/// Changes the replicas of the Workload's deployment in the pull cell 20 times.
async fn change(space: &Space<'_>) -> anyhow::Result<()> {
    let workloads = space.in_project::<Workload>();
    let on_hub = space.on_hub::<WorkloadDeployment>();
    for round in 0..20 {
        let replicas = if round == 19 { REPLICAS } else { 1 + round % 5 };
        let placements =
            fixture::workload("web", &[("far", &[CITY], replicas), ("near", &["DFW"], 1)]);
        let change = json!({"spec": {"placements": placements["spec"]["placements"]}});
        patch(&workloads, "web", change).await?;
        let arrived = |copy: &WorkloadDeployment| copy.spec.scale_settings.min_replicas == replicas;
        wait::until(&on_hub, WEB, "changed", WITHIN, arrived).await?;
    }
    Ok(())
}

/// Changes an object in the cell. The agent undoes the change without the hub.
async fn drift_is_undone(in_cell: &Api<WorkloadDeployment>, pull: &PullCell) -> anyhow::Result<()> {
    let before = answers(&pull.interpreter_metrics().await?, "Retain");
    let drift = json!({"spec": {"placementName": "edited"}});
    patch(in_cell, GONE, drift).await?;
    let is_undone = |deployment: &WorkloadDeployment| deployment.spec.placement_name == "default";
    wait::until(in_cell, GONE, "as before", WITHIN, is_undone).await?;
    let asked = answers(&pull.interpreter_metrics().await?, "Retain") - before;
    ensure!(asked > 0.0, "the interpreter of the cell was not asked");
    Ok(())
}

/// Returns how many requests about WorkloadDeployments an interpreter has answered, according to its metrics.
pub(crate) fn answers(metrics: &str, operation: &str) -> f64 {
    const COUNTER: &str = "compute_federation_interpreter_requests_total";
    let is_counted = |line: &&str| {
        let labels = [operation, "WorkloadDeployment", "success"];
        line.starts_with(COUNTER) && labels.iter().all(|it| line.contains(&format!("\"{it}\"")))
    };
    let counted = metrics.lines().filter(is_counted);
    let counts = counted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    counts.sum()
}

/// An agent that starts while the hub is away ends. If it is started again until it stays, the cell is in step again.
async fn restarts(space: &Space<'_>, pull: &mut PullCell) -> anyhow::Result<()> {
    let in_project = space.in_project::<WorkloadDeployment>();
    let cut = pull.cut();
    pull.restart_agent().await?;
    let ended = tokio::time::timeout(AGENT_ENDS, pull.agent_ended()).await;
    let code = ended.context("the agent goes on without the hub")??;
    ensure!(code != 0, "the agent ended without an error");
    let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    patch(&in_project, LATE, scaled).await?;
    drop(cut);
    pull.restart_agent().await?;
    settled(&in_project, LATE, 2, WITHIN).await?;
    Ok(())
}
