//! A lower hub whose process does not run.

use anyhow::ensure;
use api::condition::{self, ConditionStatus};
use api::lower_hub::REPORTING;
use api::reasons::lower_hub::{PROCESS_REPORTS, PROCESS_SILENT};
use api::reasons::workload_deployment::LOWER_HUB_SILENT;
use api::workload_deployment::CELLS_REPORTING;
use api::{Condition, Instance, LowerHub, WorkloadDeployment};
use harness::manager::Manager;
use harness::{Federation, wait};
use kube::Api;
use kube::api::ListParams;
use rustix::process::Signal;
use tokio::sync::Mutex;
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
    until_shown(&lower_hubs, LOWER, PROCESS_REPORTS).await?;
    until_counted(federation.management()?, 0).await?;

    manager.lock().await.kill().await;
    let begin = Instant::now();
    until_shown(&lower_hubs, LOWER, PROCESS_SILENT).await?;
    let is_told = |it: &WorkloadDeployment| is_told(it, LOWER);
    wait::until(&deployments, WEB, "not known", WITHIN, is_told).await?;
    eprintln!("silence shown after {:.1?}", begin.elapsed());
    all_are_ready(space, 2).await?;
    until_counted(federation.management()?, 1).await?;
    // A process that starts meanwhile knows the same.
    let silent = lower_hubs.get(LOWER).await?;
    federation.management()?.lock().await.terminate().await;
    federation.management()?.lock().await.restart().await?;
    until_counted(federation.management()?, 1).await?;
    let later = lower_hubs.get(LOWER).await?;
    ensure!(later.metadata == silent.metadata, "written again");

    manager.lock().await.restart().await?;
    let begin = Instant::now();
    until_shown(&lower_hubs, LOWER, PROCESS_REPORTS).await?;
    let is_over = |it: &WorkloadDeployment| reporting(it).is_none();
    wait::until(&deployments, WEB, "known", WITHIN, is_over).await?;
    eprintln!("known again after {:.1?}", begin.elapsed());
    until_counted(federation.management()?, 0).await
}

/// Suspends the process of a lower hub below the lower hub, which has this name there and on the hub. The LowerHub above
/// it shows it, that of the hub names it, and the project too. The Instances below stay ready. Then the process goes on.
pub(super) async fn below_is_shown_until_it_runs(
    federation: &Federation,
    space: &Space<'_>,
    [cluster, name]: [&str; 2],
) -> anyhow::Result<()> {
    let on_hub: Api<LowerHub> = Api::all(federation.hub().client());
    let on_lower: Api<LowerHub> = Api::all(federation.lower_hub(LOWER)?.client());
    let deployments: Api<WorkloadDeployment> = space.in_project();
    let suspended = federation.lower_hub_manager(name)?;
    let above = federation.lower_hub_manager(LOWER)?;
    until_shown(&on_lower, cluster, PROCESS_REPORTS).await?;
    until_counted(above, 0).await?;

    suspended.lock().await.signal(Signal::STOP)?;
    let begin = Instant::now();
    until_shown(&on_lower, cluster, PROCESS_SILENT).await?;
    let is_named = |it: &LowerHub| silent_below(it) == [cluster];
    wait::until(&on_hub, LOWER, "it names the other", WITHIN, is_named).await?;
    let is_told = |it: &WorkloadDeployment| is_told(it, name);
    wait::until(&deployments, WEB, "not known", WITHIN, is_told).await?;
    eprintln!("silence of {name} shown after {:.1?}", begin.elapsed());
    until_shown(&on_hub, LOWER, PROCESS_REPORTS).await?;
    all_are_ready(space, 4).await?;
    until_counted(above, 1).await?;
    // Processes that start meanwhile know the same.
    let silent = (on_lower.get(cluster).await?, on_hub.get(LOWER).await?);
    for manager in [above, federation.management()?] {
        manager.lock().await.terminate().await;
        manager.lock().await.restart().await?;
    }
    until_counted(above, 1).await?;
    let later = (on_lower.get(cluster).await?, on_hub.get(LOWER).await?);
    ensure!(later == silent, "written again");

    suspended.lock().await.signal(Signal::CONT)?;
    let begin = Instant::now();
    until_shown(&on_lower, cluster, PROCESS_REPORTS).await?;
    let is_over = |it: &LowerHub| silent_below(it).is_empty();
    wait::until(&on_hub, LOWER, "it names none", WITHIN, is_over).await?;
    let is_over = |it: &WorkloadDeployment| reporting(it).is_none();
    wait::until(&deployments, WEB, "known", WITHIN, is_over).await?;
    eprintln!("known again after {:.1?}", begin.elapsed());
    until_counted(above, 0).await
}

/// Returns whether the project says that the cells below this lower hub, and no others, are not known.
fn is_told(deployment: &WorkloadDeployment, lower_hub: &str) -> bool {
    let is_said = |it: &Condition| {
        it.status == ConditionStatus::Unknown
            && it.reason == LOWER_HUB_SILENT
            && it.message.starts_with(&format!("{lower_hub}: "))
            && !it.message.contains(';')
    };
    reporting(deployment).is_some_and(is_said)
}

async fn all_are_ready(space: &Space<'_>, count: usize) -> anyhow::Result<()> {
    let instances: Api<Instance> = space.in_project();
    let instances = instances.list(&ListParams::default()).await?.items;
    ensure!(
        instances.len() == count && instances.iter().all(is_ready),
        "{instances:?}"
    );
    Ok(())
}

/// Returns the lower hubs below with silent processes.
fn silent_below(lower_hub: &LowerHub) -> Vec<&str> {
    let silent = lower_hub.status.iter();
    let silent = silent.flat_map(|status| &status.silent_lower_hubs);
    silent.map(|it| it.name.as_str()).collect()
}

fn reporting(deployment: &WorkloadDeployment) -> Option<&Condition> {
    let status = deployment.status.as_ref()?;
    condition::find(&status.conditions, CELLS_REPORTING)
}

/// Waits until `Reporting` of the LowerHub has this reason.
pub(super) async fn until_shown(
    lower_hubs: &Api<LowerHub>,
    name: &str,
    reason: &str,
) -> anyhow::Result<()> {
    let is_so = |it: &LowerHub| {
        let status = it.status.as_ref();
        let reporting = status.and_then(|it| condition::find(&it.conditions, REPORTING));
        reporting.is_some_and(|it| it.reason == reason)
    };
    wait::until(lower_hubs, name, reason, WITHIN, is_so).await?;
    Ok(())
}

/// Waits until the metric of the process above them counts this many lower hubs.
async fn until_counted(manager: &Mutex<Manager>, count: u32) -> anyhow::Result<()> {
    let line = format!("compute_federation_silent_lower_hubs {count}");
    wait::eventually(&line, WITHIN, || async {
        let metrics = manager.lock().await.metrics().await?;
        ensure!(metrics.lines().any(|it| it == line));
        Ok(())
    })
    .await
}
