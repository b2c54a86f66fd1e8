//! The service is suspended in a project, and resumed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::condition::{self, Condition};
use api::workload_deployment::AVAILABLE;
use api::{Instance, Workload, WorkloadDeployment, annotations, instance};
use harness::audit::{AuditPosition, Write};
use harness::wait;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::fixture::{GatedFederation, TWIN};
use super::pauses::until_nothing_is_recorded;
use crate::fixture::{DFW, ORD, Space, WITHIN, patch};
use crate::settled::quiet;

/// Time during which a suspended project causes no write.
const SILENCE: Duration = Duration::from_secs(20);
const CELLS: [&str; 3] = [DFW, ORD, TWIN];
const DEPLOYMENTS: [&str; 2] = ["web-us-dfw", "web-us-ord"];
/// An Instance with the same name on all planes.
const NAME: &str = "web-us-dfw-0";
const SUSPENDED: &str = "Suspended";

/// Every plane says that the service is suspended. Nothing is replaced, and quota stays claimed. A new template rolls
/// out after the suspension.
pub(crate) async fn a_service_is_suspended_and_resumed(
    gated: &GatedFederation,
) -> anyhow::Result<()> {
    let space = gated.space("paused").await?;
    space
        .create_workload("web", &[("us", &["DFW", "ORD"], 1)])
        .await?;
    space.until_settled("web", 3).await?;
    gated.until_all_run(&space, &CELLS, 1).await?;
    let (instances, claims) = (uids(&space).await?, claims(gated, &space).await?);

    let began = Instant::now();
    for name in DEPLOYMENTS {
        set_suspended(&space, name, Some("true")).await?;
    }
    until_suspended_everywhere(&space).await?;
    eprintln!("suspended after {:.1} s", began.elapsed().as_secs_f64());

    change_image(&space, "app:2").await?;
    // A claim that has passed on before is recorded for a minute.
    until_nothing_is_recorded(gated).await?;
    quiet(&gated.federation).await?;
    let position = AuditPosition::now(gated.federation.planes())?;
    sleep(SILENCE).await;
    let writes = position.writes()?.into_iter();
    let ours = writes.filter(|write| write.is_ours() && !write.is_lease());
    let ours: Vec<_> = ours.map(|write: Write| write.to_string()).collect();
    ensure!(ours.is_empty(), "{} writes: {ours:?}", ours.len());
    until_suspended_everywhere(&space).await?;
    ensure!(uids(&space).await? == instances, "an Instance is replaced");
    ensure!(self::claims(gated, &space).await? == claims, "claims");

    // The absence of the annotation and its other value mean the same.
    let began = Instant::now();
    for (name, value) in DEPLOYMENTS.into_iter().zip([None, Some("false")]) {
        set_suspended(&space, name, value).await?;
    }
    let settled = space.until_settled("web", 3).await?;
    eprintln!("resumed after {:.1} s", began.elapsed().as_secs_f64());
    ensure!(!message_of(&settled).contains(SUSPENDED), "{settled:?}");
    for cell in CELLS {
        for instance in space
            .in_cell::<Instance>(cell)
            .list(&ListParams::default())
            .await?
        {
            ensure!(!instance.is_suspended(), "{instance:?}");
            ensure!(
                json!(instance.spec).to_string().contains("app:2"),
                "{instance:?}"
            );
        }
    }
    gated.until_all_run(&space, &CELLS, 1).await?;
    gated.delete(&space, "web").await
}

async fn set_suspended(space: &Space<'_>, name: &str, value: Option<&str>) -> anyhow::Result<()> {
    let deployments = space.in_project::<WorkloadDeployment>();
    let change = json!({"metadata": {"annotations": {annotations::SUSPENDED: value}}});
    patch(&deployments, name, change).await.map(drop)
}

/// Changes the template of the Workload, and waits until the cells have it.
async fn change_image(space: &Space<'_>, image: &str) -> anyhow::Result<()> {
    let workloads = space.in_project::<Workload>();
    let mut template = json!(workloads.get("web").await?.spec.template);
    template["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(image);
    let change = json!({"spec": {"template": template}});
    patch(&workloads, "web", change).await?;
    for (cell, name) in [
        (DFW, "web-us-dfw"),
        (ORD, "web-us-ord"),
        (TWIN, "web-us-ord"),
    ] {
        let has_image = |deployment: &WorkloadDeployment| {
            let status = deployment.status.clone().unwrap_or_default();
            json!(deployment.spec.template).to_string().contains(image)
                && status.observed_generation == deployment.metadata.generation
        };
        wait::until(&space.in_cell(cell), name, image, WITHIN, has_image).await?;
    }
    Ok(())
}

async fn until_suspended_everywhere(space: &Space<'_>) -> anyhow::Result<()> {
    let is_suspended = |instance: &Instance| {
        let status = instance.status.clone().unwrap_or_default();
        let ready = condition::find(&status.conditions, instance::READY);
        status.suspended == Some(true) && ready.is_some_and(is_told)
    };
    for instances in [space.in_cell(DFW), space.on_hub(), space.in_project()] {
        wait::until(&instances, NAME, SUSPENDED, WITHIN, is_suspended).await?;
    }
    let are_suspended = |deployment: &WorkloadDeployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let available = condition::find(&status.conditions, AVAILABLE);
        status.suspended == Some(true)
            && status.ready_replicas == 0
            && available.is_some_and(is_told)
    };
    for name in DEPLOYMENTS {
        for deployments in [space.on_hub(), space.in_project()] {
            wait::until(&deployments, name, SUSPENDED, WITHIN, are_suspended).await?;
        }
    }
    let is_named = |workload: &Workload| message_of(workload).contains(SUSPENDED);
    let workloads = space.in_project();
    wait::until(&workloads, "web", SUSPENDED, WITHIN, is_named).await?;
    Ok(())
}

fn is_told(condition: &Condition) -> bool {
    condition.is_false() && condition.reason == SUSPENDED
}

fn message_of(workload: &Workload) -> String {
    let conditions = workload.status.iter().flat_map(|it| &it.conditions);
    let messages = conditions.map(|condition| condition.message.as_str());
    messages.collect()
}

/// Returns the UID of each Instance, by cell and name.
async fn uids(space: &Space<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut uids = BTreeMap::new();
    for cell in CELLS {
        for instance in space
            .in_cell::<Instance>(cell)
            .list(&ListParams::default())
            .await?
        {
            let uid = instance.uid().context("no UID")?;
            uids.insert(format!("{cell} {}", instance.name_any()), uid);
        }
    }
    Ok(uids)
}

/// Returns the UID and the resource version of each claim.
async fn claims(
    gated: &GatedFederation,
    space: &Space<'_>,
) -> anyhow::Result<BTreeMap<Option<String>, Option<String>>> {
    let claims = gated.claims(space).await?.into_iter();
    let versions = claims.map(|claim| (claim.uid(), claim.resource_version()));
    Ok(versions.collect())
}
