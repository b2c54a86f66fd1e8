//! A lower hub whose process does not run.

use anyhow::ensure;
use api::condition::{self, ConditionStatus};
use api::lower_hub::REPORTING;
use api::reasons::lower_hub::{PROCESS_REPORTS, PROCESS_SILENT};
use api::reasons::workload_deployment::LOWER_HUB_SILENT;
use api::workload_deployment::CELLS_REPORTING;
use api::{Condition, Instance, LowerHub, WorkloadDeployment};
use harness::{Federation, wait};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::{LOWER, WEB};
use crate::fixture::{Space, WITHIN, is_ready};

/// Kills the process of the lower hub. The LowerHub and the project show it. The Instances below stay ready, because
/// their cells report as before. Then the process starts again.
pub(super) async fn is_shown_until_it_runs(
    federation: &Federation,
    space: &Space<'_>,
) -> anyhow::Result<()> {
    let lower_hubs: Api<LowerHub> = Api::all(federation.hub().client());
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let manager = federation.lower_hub_manager(LOWER)?;
    until_shown(&lower_hubs, PROCESS_REPORTS).await?;
    until_counted(federation, 0).await?;

    manager.lock().await.kill().await;
    let begin = Instant::now();
    until_shown(&lower_hubs, PROCESS_SILENT).await?;
    let is_told = |it: &WorkloadDeployment| {
        reporting(it).is_some_and(|it| {
            it.status == ConditionStatus::Unknown && it.reason == LOWER_HUB_SILENT
        })
    };
    wait::until(&deployments, WEB, "not known", WITHIN, is_told).await?;
    eprintln!("silence shown after {:.1?}", begin.elapsed());
    let instances: Api<Instance> = space.in_project();
    let instances = instances.list(&ListParams::default()).await?.items;
    ensure!(
        instances.len() == 2 && instances.iter().all(is_ready),
        "{instances:?}"
    );
    until_counted(federation, 1).await?;
    // A process that starts meanwhile knows the same.
    let silent = lower_hubs.get(LOWER).await?;
    federation.management()?.lock().await.terminate().await;
    federation.management()?.lock().await.restart().await?;
    until_counted(federation, 1).await?;
    let later = lower_hubs.get(LOWER).await?;
    ensure!(later.metadata == silent.metadata, "written again");

    manager.lock().await.restart().await?;
    let begin = Instant::now();
    until_shown(&lower_hubs, PROCESS_REPORTS).await?;
    let is_over = |it: &WorkloadDeployment| reporting(it).is_none();
    wait::until(&deployments, WEB, "known", WITHIN, is_over).await?;
    eprintln!("known again after {:.1?}", begin.elapsed());
    until_counted(federation, 0).await
}

fn reporting(deployment: &WorkloadDeployment) -> Option<&Condition> {
    let status = deployment.status.as_ref()?;
    condition::find(&status.conditions, CELLS_REPORTING)
}

/// Waits until `Reporting` of the LowerHub has this reason.
async fn until_shown(lower_hubs: &Api<LowerHub>, reason: &str) -> anyhow::Result<()> {
    let is_so = |it: &LowerHub| {
        let status = it.status.as_ref();
        let reporting = status.and_then(|it| condition::find(&it.conditions, REPORTING));
        reporting.is_some_and(|it| it.reason == reason)
    };
    wait::until(lower_hubs, LOWER, reason, WITHIN, is_so).await?;
    Ok(())
}

/// Waits until the metric of the management process counts this many lower hubs.
async fn until_counted(federation: &Federation, count: u32) -> anyhow::Result<()> {
    let line = format!("compute_federation_silent_lower_hubs {count}");
    wait::eventually(&line, WITHIN, || async {
        let metrics = federation.management()?.lock().await.metrics().await?;
        ensure!(metrics.lines().any(|it| it == line));
        Ok(())
    })
    .await
}
