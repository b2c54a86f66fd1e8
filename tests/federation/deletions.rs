//! Tests of the deletion of a Workload whose Instances end slowly, or in a cell that is away.

use std::time::Duration;

use anyhow::ensure;
use api::condition::{self, Condition};
use api::reasons::workload_deployment::{INSTANCES_MAY_REMAIN, INSTANCES_REMAIN};
use api::workload_deployment::INSTANCES_ENDED;
use api::{Instance, Workload, WorkloadDeployment};
use harness::{Federation, wait};
use k8s_openapi::api::events::v1::Event;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::events;
use crate::fixture::{DFW, ORD, Space, WITHIN, patch};

/// The finalizer of a provider that has not stopped an Instance yet.
const HELD: &str = "example.com/stopping";
/// Time limit after the last Instance has ended.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// How long a deletion waits at least. The API server counts whole seconds.
const WAITS: Duration = Duration::from_secs(178);
/// How long a deletion may take in all if an Instance does not end.
const LIMIT: Duration = Duration::from_mins(4);

/// Adds the finalizer of a provider to an Instance of a cell.
pub(crate) async fn hold(space: &Space<'_>, cell: &str, instance: &str) -> anyhow::Result<()> {
    let instances = space.in_cell::<Instance>(cell);
    let mut finalizers = instances.get(instance).await?.finalizers().to_vec();
    finalizers.push(HELD.to_owned());
    set_finalizers(space, cell, instance, json!(finalizers)).await
}

/// Ends an Instance of a cell: the provider removes its finalizer. The others may be gone by now.
pub(crate) async fn end(space: &Space<'_>, cell: &str, instance: &str) -> anyhow::Result<()> {
    let is_held_alone = |it: &Instance| it.finalizers() == [HELD];
    let instances = space.in_cell::<Instance>(cell);
    wait::until(
        &instances,
        instance,
        "held by its provider alone",
        WITHIN,
        is_held_alone,
    )
    .await?;
    set_finalizers(space, cell, instance, Value::Null).await
}

async fn set_finalizers(
    space: &Space<'_>,
    cell: &str,
    instance: &str,
    finalizers: Value,
) -> anyhow::Result<()> {
    let change = json!({"metadata": {"finalizers": finalizers}});
    patch::<Instance>(&space.in_cell(cell), instance, change)
        .await
        .map(drop)
}

/// Waits until a terminating WorkloadDeployment of the project waits for these cells.
pub(crate) async fn until_waiting(
    space: &Space<'_>,
    deployment: &str,
    cells: &str,
) -> anyhow::Result<WorkloadDeployment> {
    let text = format!("{cells} may still have instances; ");
    let waits = |it: &WorkloadDeployment| {
        let ended = ended(it);
        ended.is_some_and(|it| it.reason == INSTANCES_REMAIN && it.message.starts_with(&text))
    };
    let deployments = space.in_project::<WorkloadDeployment>();
    wait::until(&deployments, deployment, &text, WITHIN, waits).await
}

fn ended(deployment: &WorkloadDeployment) -> Option<&Condition> {
    let status = deployment.status.as_ref()?;
    condition::find(&status.conditions, INSTANCES_ENDED)
}

/// Waits for the event that the deletion of a WorkloadDeployment has not waited for its cells.
pub(crate) async fn until_told(published: &Api<Event>, deployment: &str) -> anyhow::Result<()> {
    let what = format!("{INSTANCES_MAY_REMAIN} on {deployment}");
    let told = ("Warning".to_owned(), INSTANCES_MAY_REMAIN.to_owned());
    wait::eventually(&what, WITHIN, || async {
        let found = events::of(published, "WorkloadDeployment", deployment).await?;
        ensure!(found.contains(&told), "{found:?}");
        Ok(())
    })
    .await
}

/// The Workload stays until its last Instance is gone from its cell, and the project sees which cell that is.
pub(crate) async fn a_workload_stays_until_its_instances_have_ended(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "ending").await?;
    let workload = space
        .create_workload("web", &[("all", &["DFW", "ORD"], 2)])
        .await?;
    space.until_settled("web", 4).await?;
    hold(&space, ORD, "web-all-ord-1").await?;
    let workloads = space.in_project::<Workload>();
    workloads.delete("web", &DeleteParams::default()).await?;

    until_waiting(&space, "web-all-ord", "ord1 (1)").await?;
    let deployments = space.in_project::<WorkloadDeployment>();
    let counts_it = |it: &WorkloadDeployment| {
        let status = it.status.clone().unwrap_or_default();
        (status.replicas, status.ready_replicas) == (1, 0)
    };
    wait::until(&deployments, "web-all-ord", "one left", WITHIN, counts_it).await?;
    let copy = space
        .on_hub::<WorkloadDeployment>()
        .get("web-all-ord")
        .await?;
    ensure!(copy.is_ending() && copy.metadata.deletion_timestamp.is_none());
    // The other city does not wait for this one.
    wait::gone(&deployments, "web-all-dfw", WITHIN).await?;
    for deployment in ["web-all-dfw", "web-all-ord"] {
        let in_cell = space.in_cell::<Instance>(if deployment.ends_with("dfw") {
            DFW
        } else {
            ORD
        });
        wait::gone(&in_cell, &format!("{deployment}-0"), WITHIN).await?;
    }
    let stays = workloads.get("web").await?;
    ensure!(stays.uid() == workload.uid());

    end(&space, ORD, "web-all-ord-1").await?;
    let ended = Instant::now();
    wait::gone(&workloads, "web", WITHIN).await?;
    let took = ended.elapsed();
    eprintln!("gone {:.1} s after the last Instance", took.as_secs_f64());
    ensure!(took < AFTERWARDS, "{took:?}");
    space.until_empty().await
}

/// After the limit the Workload is deleted although an Instance has not ended. Karmada has deleted the
/// WorkloadDeployment in the cell by then, so the Instance ends there when its provider lets it go.
pub(crate) async fn an_instance_that_does_not_end_blocks_its_workload_only_for_a_time(
    federation: &Federation,
) -> anyhow::Result<()> {
    let space = Space::create(federation, "not-ending").await?;
    space
        .create_workload("web", &[("all", &["ORD"], 1)])
        .await?;
    space.until_settled("web", 1).await?;
    hold(&space, ORD, "web-all-ord-0").await?;
    let begin = Instant::now();
    let workloads = space.in_project::<Workload>();
    workloads.delete("web", &DeleteParams::default()).await?;
    wait::gone(&workloads, "web", LIMIT).await?;
    eprintln!("gone after {:.1} s", begin.elapsed().as_secs_f64());
    ensure!(begin.elapsed() > WAITS, "it did not wait");
    until_told(&space.in_project(), "web-all-ord").await?;
    let instances = space.in_cell::<Instance>(ORD);
    ensure!(instances.get_opt("web-all-ord-0").await?.is_some());
    end(&space, ORD, "web-all-ord-0").await?;
    space.until_empty().await
}
