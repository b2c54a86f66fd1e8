//! Tests of a cell in pull mode that loses its connection to the hub for minutes.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::karmada::ResourceBinding;
use api::{Instance, Workload, WorkloadDeployment};
use harness::federation::PullCell;
use harness::rights::PlaneUser;
use harness::{CellConfig, Config, Federation, networking, wait};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::fixture::{self, DFW, Space, WITHIN, create, deployment, is_settled, patch};
use crate::freshness::is_unreachable;

/// The pull cell.
const FAR: &str = "lax1";
const CITY: &str = "LAX";

/// How long the cell is without its connection.
const AWAY: Duration = Duration::from_mins(3);
/// Time limit until Karmada notices that a cell says nothing: 40 s and its interval.
const NOTICED: Duration = Duration::from_secs(75);
/// Time limit from the return of the connection until the cell and the project are in step.
const IN_STEP: Duration = Duration::from_secs(10);
/// Time limit for an agent without its hub to end.
const AGENT_ENDS: Duration = Duration::from_mins(1);

const WEB: &str = "web-far-lax";
/// Deployments that end, begin, and are replaced by another one of the same name while the cell is away.
const GONE: &str = "gone";
const LATE: &str = "late";
const ANEW: &str = "anew";
/// Replicas of `WEB` at the end.
const REPLICAS: i32 = 3;

/// Starts a federation with a push cell and a pull cell.
async fn start() -> anyhow::Result<(Federation, PullCell)> {
    let config = Config {
        cells: vec![CellConfig::new(DFW, "DFW")],
        ..fixture::config("pull")?
    };
    let mut federation = fixture::start_from(&config).await?;
    let far = CellConfig::new(FAR, CITY);
    networking::offer_city(&federation.project().client(), "lax", CITY).await?;
    let pull = federation.add_pull_cell(&config, &far).await?;
    Ok((federation, pull))
}

/// The hub's objects change while the cell is away. What runs in the cell goes on, the project says that the cell is
/// unreachable, and after the return everything is in step.
pub(crate) async fn a_cell_that_is_away() -> anyhow::Result<()> {
    let (federation, mut pull) = start().await?;
    let space = Space::create(&federation, "away").await?;
    let placements: [(&str, &[&str], i32); 2] = [("far", &[CITY], 1), ("near", &["DFW"], 1)];
    space.create_workload("web", &placements).await?;
    space.until_settled("web", 2).await?;
    let (in_project, in_cell) = (
        space.in_project::<WorkloadDeployment>(),
        space.in_cell::<WorkloadDeployment>(FAR),
    );
    for name in [GONE, ANEW] {
        create(&in_project, deployment(name, CITY)).await?;
        settled(&in_project, name, 1, WITHIN).await?;
    }
    the_agent_has_only_its_own(&federation).await?;
    let running = uids(&space.in_cell(FAR)).await?;
    let former = in_cell.get(ANEW).await?.uid();

    let cut = pull.cut();
    let begin = Instant::now();
    for name in [WEB, GONE, ANEW] {
        let what = "unreachable";
        wait::until(&in_project, name, what, NOTICED, is_unreachable).await?;
    }
    eprintln!("unreachable after {:.1} s", begin.elapsed().as_secs_f64());
    change(&space).await?;
    drift_is_undone(&in_cell).await?;
    create(&in_project, deployment(LATE, CITY)).await?;
    let placed = |binding: &ResourceBinding| {
        let clusters = binding.spec.clusters.iter();
        clusters.map(|it| it.name.as_str()).eq([FAR])
    };
    let bindings: Api<ResourceBinding> = space.on_hub();
    let name = format!("{LATE}-workloaddeployment");
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
    sleep_until(begin + AWAY).await;

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
    let since = || back.elapsed().as_secs_f64();
    let left = || IN_STEP.saturating_sub(back.elapsed());
    settled(&in_project, WEB, REPLICAS, left()).await?;
    eprintln!("{WEB} in step after {:.1} s", since());
    settled(&in_project, LATE, 1, left()).await?;
    eprintln!("{LATE} in step after {:.1} s", since());
    wait::gone(&in_cell, GONE, left()).await?;
    eprintln!("{GONE} gone after {:.1} s", since());
    settled(&in_project, ANEW, 1, left()).await?;
    eprintln!("{ANEW} in step after {:.1} s", since());
    ensure!(
        in_cell.get(ANEW).await?.uid() != former,
        "{ANEW} is the former object"
    );
    space.until_settled("web", REPLICAS + 1).await?;

    restarts(&space, &mut pull).await?;

    for name in [LATE, ANEW] {
        in_project.delete(name, &DeleteParams::default()).await?;
    }
    space.delete_workload("web").await?;
    space.until_empty().await?;
    federation.stop().await;
    Ok(())
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
async fn drift_is_undone(in_cell: &Api<WorkloadDeployment>) -> anyhow::Result<()> {
    let drift = json!({"spec": {"placementName": "edited"}});
    patch(in_cell, GONE, drift).await?;
    let is_undone = |deployment: &WorkloadDeployment| deployment.spec.placement_name == "default";
    let undone = wait::until(in_cell, GONE, "as before", WITHIN, is_undone).await;
    undone.map(drop)
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

/// The agent of a cell can neither read nor write anything of another cell.
async fn the_agent_has_only_its_own(federation: &Federation) -> anyhow::Result<()> {
    let reviews: Api<SubjectAccessReview> = Api::all(federation.hub().client());
    let PlaneUser { name: user, groups } = PlaneUser::agent(FAR);
    let may = |verb: &str, group: &str, resource: &str, namespace: &str, name: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review: Value = json!({"spec": {"user": user, "groups": groups, "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name,
        }}});
        let reviews = reviews.clone();
        async move {
            let review = serde_json::from_value(review)?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            anyhow::Ok(answer.status.is_some_and(|status| status.allowed))
        }
    };
    let (own, other) = (format!("karmada-es-{FAR}"), format!("karmada-es-{DFW}"));
    let (clusters, leases, works) = (
        "cluster.karmada.io",
        "coordination.k8s.io",
        "work.karmada.io",
    );
    for (verb, group, resource, namespace, name, expected) in [
        ("update", works, "works/status", &*own, "any", true),
        ("get", works, "works", &other, "any", false),
        ("list", works, "works", &other, "", false),
        ("list", works, "works", "", "", false),
        ("update", works, "works", &other, "any", false),
        ("update", works, "works/status", &other, "any", false),
        ("create", works, "works", &own, "", false),
        ("delete", works, "works", &own, "any", false),
        ("update", clusters, "clusters/status", "", FAR, true),
        ("update", clusters, "clusters/status", "", DFW, false),
        ("update", clusters, "clusters", "", FAR, false),
        ("create", clusters, "clusters", "", "", false),
        ("delete", clusters, "clusters", "", FAR, false),
        ("update", leases, "leases", "karmada-cluster", FAR, true),
        ("update", leases, "leases", "karmada-cluster", DFW, false),
        (
            "update",
            leases,
            "leases",
            "karmada-system",
            "karmada-scheduler",
            false,
        ),
        ("create", leases, "leases", "karmada-cluster", "", false),
        ("create", "", "secrets", "karmada-cluster", "", false),
        ("get", "", "secrets", "karmada-cluster", DFW, false),
        ("list", "", "secrets", "", "", false),
        ("list", "", "namespaces", "", "", false),
        (
            "get",
            api::GROUP,
            "workloaddeployments",
            "default",
            "any",
            false,
        ),
        ("list", works, "resourcebindings", "", "", false),
    ] {
        let allowed = may(verb, group, resource, namespace, name).await?;
        ensure!(
            allowed == expected,
            "{verb} {resource}.{group} {namespace}/{name}: allowed is {allowed}"
        );
    }
    Ok(())
}
