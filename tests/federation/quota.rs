//! Tests of quota: the cells of a federation claim it in the project.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition::{self, Condition};
use api::instance::{QUOTA_GRANTED, READY};
use api::{Instance, Workload, WorkloadDeployment};
use harness::quota::{INSTANCES, MEMORY, QuotaDelays, VCPUS};
use harness::{Config, Federation, QuotaSystem, wait};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{self, DFW, ORD, Space, WITHIN};

/// Less than the interval after which a denied claim is made anew without a reason.
const NEXT_TRY: Duration = Duration::from_secs(12);
/// Less than every interval at which a claim is read, so only a watch opens the gate in this time.
const RUNS: Duration = Duration::from_secs(10);
/// Two Instances of a cell are replaced one after the other. Before, their quota is asked for at most 15 s later.
const ROLLED_OUT: Duration = Duration::from_mins(1);
/// The name of the only project.
const PROJECT: &str = "single";

pub(crate) async fn each_instance_waits_for_its_quota_and_returns_it() -> anyhow::Result<()> {
    let config = Config {
        quota: true,
        ..fixture::config("quota")?
    };
    let federation = fixture::start_from(&config).await?;
    let tested = run(&federation).await;
    tested.with_context(|| format!("in {}", federation.directory().display()))?;
    federation.stop().await;
    Ok(())
}

async fn run(federation: &Federation) -> anyhow::Result<()> {
    let project = federation.project().client();
    let quota = QuotaSystem::start(&[(PROJECT, project)], QuotaDelays::default()).await?;
    for (resource, amount) in [(INSTANCES, 3), (VCPUS, 100_000), (MEMORY, 1_000_000)] {
        quota.set_limit(PROJECT, resource, amount).await?;
    }
    let space = Space::create(federation, "quota").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 2)])
        .await?;

    let denied = until_one_is_denied(&space).await?;
    let all = space.in_project::<Instance>();
    let ready = all.list(&ListParams::default()).await?;
    assert_eq!(ready.iter().filter(|it| is_ready(it)).count(), 3);
    let (cell, _, name) = &denied;
    wait::until(
        &space.in_cell(cell),
        name,
        "denied in the cell",
        WITHIN,
        is_denied,
    )
    .await?;
    wait::until(
        &space.on_hub(),
        name,
        "denied on the hub",
        WITHIN,
        is_denied,
    )
    .await?;
    until_the_project_says_so(&space, &denied).await?;
    // The denied claim holds no part of what it asked for.
    wait::eventually("only the granted claims hold quota", WITHIN, || async {
        let vcpus = quota.allocated(PROJECT, VCPUS).await?;
        ensure!(vcpus == 3000, "{vcpus}");
        Ok(())
    })
    .await?;

    let raised = Instant::now();
    quota.set_limit(PROJECT, INSTANCES, 4).await?;
    // The claim is made anew because the quota is seen. The interval would be 15 s.
    wait::until(&space.in_cell(cell), name, "granted", NEXT_TRY, is_granted).await?;
    let granted = raised.elapsed().as_secs_f64();
    wait::until(
        &space.in_cell(cell),
        name,
        "running",
        RUNS,
        fixture::is_ready,
    )
    .await?;
    space.until_settled("web", 4).await?;
    eprintln!(
        "granted {granted:.1} s, and all run {:.1} s after the quota was raised",
        raised.elapsed().as_secs_f64()
    );
    let claims = quota.claims(PROJECT).await?;
    let names: BTreeSet<_> = claims
        .iter()
        .filter_map(|it| it.metadata.name.clone())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for cell in [DFW, ORD] {
        assert_eq!(names.iter().filter(|name| name.contains(cell)).count(), 2);
    }

    space
        .in_project::<Workload>()
        .delete("web", &DeleteParams::default())
        .await?;
    until_returned(&quota).await?;
    a_larger_template_waits(&space, &quota).await?;
    until_returned(&quota).await
}

/// The cell, the WorkloadDeployment and the name of an Instance without quota.
type Denied = (&'static str, &'static str, String);

/// Waits until the WorkloadDeployment and the Workload name the Instance without quota.
async fn until_the_project_says_so(
    space: &Space<'_>,
    (cell, deployment, name): &Denied,
) -> anyhow::Result<()> {
    let says_so = |deployment: &WorkloadDeployment| {
        let status = deployment.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        condition::find(conditions, "ReplicasReady")
            .is_some_and(|it| it.is_false() && it.reason == "QuotaExceeded")
    };
    wait::until(
        &space.in_project(),
        deployment,
        "short of quota",
        WITHIN,
        says_so,
    )
    .await?;
    let says_so = |workload: &Workload| {
        let status = workload.status.as_ref();
        let placement = status.and_then(|status| status.placements.first());
        let shown = [
            status.map(|status| &status.conditions[..]),
            placement.map(|placement| &placement.conditions[..]),
        ];
        let sentence = format!("Instance {name} has no quota: ");
        shown.into_iter().all(|conditions| {
            let available = condition::find(conditions.unwrap_or_default(), "Available");
            available.is_some_and(|it| {
                let message = &it.message;
                let parts = [*deployment, *cell, sentence.as_str()];
                it.is_true() && parts.iter().all(|part| message.contains(part))
            })
        })
    };
    wait::until(
        &space.in_project(),
        "web",
        "short of quota in a city",
        WITHIN,
        says_so,
    )
    .await
    .map(drop)
}

async fn until_returned(quota: &QuotaSystem) -> anyhow::Result<()> {
    wait::eventually("all quota is returned", WITHIN, || async {
        let claims = quota.claims(PROJECT).await?;
        ensure!(claims.is_empty(), "{} claims", claims.len());
        for resource in [INSTANCES, VCPUS, MEMORY] {
            let allocated = quota.allocated(PROJECT, resource).await?;
            ensure!(allocated == 0, "{resource}: {allocated}");
        }
        Ok(())
    })
    .await
}

/// Enlarges the template of two ready Instances. They stay until the quota is raised. Admission refuses Workloads of
/// another size than that of their instance type, so this is a deployment without a Workload.
async fn a_larger_template_waits(space: &Space<'_>, quota: &QuotaSystem) -> anyhow::Result<()> {
    let deployments = space.in_project::<WorkloadDeployment>();
    let mut deployment = fixture::deployment("sized", "DFW");
    deployment["spec"]["scaleSettings"]["minReplicas"] = json!(2);
    fixture::create(&deployments, deployment.clone()).await?;
    let instances = space.in_cell::<Instance>(DFW);
    let until_ready = |what: &'static str, former: BTreeSet<String>, vcpus: i64| {
        let instances = &instances;
        wait::eventually(what, ROLLED_OUT, move || {
            let former = former.clone();
            async move {
                let all = instances.list(&ListParams::default()).await?;
                let ready = all.iter().filter(|it| is_ready(it)).count();
                ensure!(ready == 2 && all.items.len() == 2, "{ready} are ready");
                ensure!(uids(&all.items).is_disjoint(&former), "one stays");
                let allocated = quota.allocated(PROJECT, VCPUS).await?;
                ensure!(allocated == vcpus, "{allocated} vcpus");
                Ok(uids(&all.items))
            }
        })
    };
    let former = until_ready("two run", BTreeSet::new(), 2000).await?;

    quota.set_limit(PROJECT, VCPUS, 2499).await?;
    let container =
        &mut deployment["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
    container["resources"] = json!({"limits": {"cpu": "1500m", "memory": "2Gi"}});
    let larger = json!({"spec": {"template": deployment["spec"]["template"]}});
    fixture::patch(&deployments, "sized", larger).await?;
    let holds = |deployment: &WorkloadDeployment| {
        let status = deployment.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let expected = "Instance sized-1 keeps its former template: the project has no quota for 500 more \
                        compute.datumapis.com/vcpus";
        condition::find(conditions, "ReplicasReady").is_some_and(|it| {
            (
                it.is_false(),
                it.reason.as_str(),
                it.message.contains(expected),
            ) == (true, "QuotaExceeded", true)
        })
    };
    wait::until(&deployments, "sized", "held", WITHIN, holds).await?;
    let all = instances.list(&ListParams::default()).await?;
    assert_eq!(all.iter().filter(|it| is_ready(it)).count(), 2);
    assert_eq!(uids(&all.items), former);

    quota.set_limit(PROJECT, VCPUS, 3000).await?;
    until_ready("two larger Instances run", former, 3000).await?;
    deployments
        .delete("sized", &DeleteParams::default())
        .await?;
    Ok(())
}

fn uids(instances: &[Instance]) -> BTreeSet<String> {
    instances
        .iter()
        .filter_map(kube::ResourceExt::uid)
        .collect()
}

/// Waits until three Instances of the project are ready and one is denied. Returns the cell, the WorkloadDeployment and
/// the name of the denied one.
async fn until_one_is_denied(space: &Space<'_>) -> anyhow::Result<Denied> {
    let projections = space.in_project::<Instance>();
    let what = "three Instances run and one is denied";
    wait::eventually(what, WITHIN, || async {
        let all = projections.list(&ListParams::default()).await?;
        let ready = all.iter().filter(|it| is_ready(it)).count();
        ensure!(ready == 3, "{ready} are ready");
        let denied = all.iter().find(|it| is_denied(it));
        let name = denied.and_then(|denied| denied.metadata.name.clone());
        let name = name.context("none is denied")?;
        let deployments = [(DFW, "web-us-dfw"), (ORD, "web-us-ord")];
        let of_denied = deployments.into_iter();
        let mut of_denied = of_denied.filter(|(_, deployment)| name.starts_with(deployment));
        let (cell, deployment) = of_denied.next().context("another deployment")?;
        Ok((cell, deployment, name))
    })
    .await
}

fn conditions(instance: &Instance) -> &[Condition] {
    instance
        .status
        .as_ref()
        .map_or(&[], |status| &status.conditions)
}

fn is_denied(instance: &Instance) -> bool {
    let granted = condition::find(conditions(instance), QUOTA_GRANTED);
    granted.is_some_and(|granted| granted.is_false() && granted.reason == "QuotaExceeded")
}

fn is_granted(instance: &Instance) -> bool {
    let granted = condition::find(conditions(instance), QUOTA_GRANTED);
    granted.is_some_and(Condition::is_true)
}

fn is_ready(instance: &Instance) -> bool {
    condition::find(conditions(instance), READY).is_some_and(Condition::is_true)
}
