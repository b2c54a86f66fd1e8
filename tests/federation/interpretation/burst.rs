//! Tests with many deployments that are created at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::WorkloadDeployment;
use futures::future::try_join;
use futures::{StreamExt, TryStreamExt, stream};
use harness::Federation;
use harness::wait::SteadyBackoff;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use tokio::time::{Instant, timeout_at};

use super::deployment_fixture::{act, placed};
use super::{DFW1, DFW2, in_dfw};
use crate::fixture::{create, deployment, is_settled};

/// Time limit for the next deployment to settle. How long all of them take depends on what else the machine does.
const NEXT: Duration = Duration::from_mins(1);
/// Number of concurrent requests to one API server.
const REQUESTS: usize = 32;
/// Text in Karmada's log for a failed interpreter call.
const FAILED_CALL: &str = "Failed calling webhook";

pub(crate) async fn a_burst(federation: &Federation) -> anyhow::Result<()> {
    burst(federation, 200).await
}

pub(crate) async fn a_burst_of_a_thousand(federation: &Federation) -> anyhow::Result<()> {
    burst(federation, 1000).await
}

/// Creates this many deployments at once and waits until all have settled. No interpreter call may fail.
async fn burst(federation: &Federation, deployments: usize) -> anyhow::Result<()> {
    let begin = Instant::now();
    let space = placed(federation, "burst", &in_dfw()).await?;
    let answers = try_join(answer(space.in_cell(DFW1)), answer(space.in_cell(DFW2)));
    let on_hub: Api<WorkloadDeployment> = space.on_hub();
    let hub = async {
        let created = stream::iter(0..deployments)
            .map(|index| create(&on_hub, deployment(&format!("web-{index}"), "DFW")))
            .buffer_unordered(REQUESTS)
            .try_for_each(|_: WorkloadDeployment| async { Ok(()) });
        try_join(created, until_settled(&on_hub, deployments))
            .await
            .map(drop)
    };
    tokio::select! {
        settled = hub => settled?,
        end = answers => end.map(drop)?,
    }

    let settled = begin.elapsed().as_secs_f64();
    let calls = calls(federation).await?;
    let failed: Vec<_> = calls
        .iter()
        .filter(|((_, outcome), count)| outcome != "success" && **count > 0)
        .collect();
    ensure!(failed.is_empty(), "calls failed: {failed:?}");
    for operation in [
        "InterpretReplica",
        "ReviseReplica",
        "InterpretStatus",
        "InterpretHealth",
        "AggregateStatus",
    ] {
        let succeeded = calls.get(&(operation.to_owned(), "success".to_owned()));
        ensure!(succeeded >= Some(&deployments), "{operation}: {calls:?}");
    }
    // A call without an answer is visible only in Karmada's log.
    let log = federation
        .directory()
        .join("logs/karmada-controller-manager.log");
    let log = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    let failed: Vec<_> = log
        .lines()
        .filter(|line| line.contains(FAILED_CALL))
        .collect();
    ensure!(failed.is_empty(), "calls failed:\n{}", failed.join("\n"));
    let calls: usize = calls.values().sum();
    eprintln!("{deployments} deployments settled in {settled:.0} s; {calls} calls, 0 calls failed");
    Ok(())
}

/// Writes the status of each deployment in a cell whenever it changes.
async fn answer(api: Api<WorkloadDeployment>) -> anyhow::Result<()> {
    watcher(api.clone(), watcher::Config::default())
        .backoff(SteadyBackoff)
        .touched_objects()
        .filter_map(|object| async {
            let object = object.ok()?;
            let observed = object
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            (observed != object.metadata.generation).then_some(object)
        })
        .map(Ok)
        .try_for_each_concurrent(REQUESTS, |object| {
            let api = &api;
            async move { act(api, &object, object.spec.desired_replicas()).await }
        })
        .await
}

/// Waits until this many deployments have settled, with one instance in each of the two cells.
async fn until_settled(api: &Api<WorkloadDeployment>, deployments: usize) -> anyhow::Result<()> {
    let mut settled = BTreeSet::new();
    let mut versions = watcher(api.clone(), watcher::Config::default())
        .backoff(SteadyBackoff)
        .touched_objects()
        .boxed();
    let mut limit = Instant::now() + NEXT;
    while settled.len() < deployments {
        let version = timeout_at(limit, versions.next()).await.with_context(|| {
            let settled = settled.len();
            format!(
                "{settled} of {deployments} deployments have settled, and no other within {NEXT:?}"
            )
        })?;
        // The watcher restarts a broken watch.
        let Ok(object) = version.context("the watch has ended")? else {
            continue;
        };
        if is_settled(&object, 2) && settled.insert(object.name_any()) {
            limit = Instant::now() + NEXT;
        }
    }
    Ok(())
}

/// Returns the number of Karmada's interpreter calls, by operation and outcome.
async fn calls(federation: &Federation) -> anyhow::Result<BTreeMap<(String, String), usize>> {
    let metrics = federation.management()?.lock().await.metrics().await?;
    let mut calls = BTreeMap::new();
    for line in metrics.lines() {
        let Some(labels) = line.strip_prefix("compute_federation_interpreter_requests_total{")
        else {
            continue;
        };
        let (labels, count) = labels.split_once("} ").context("no count")?;
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let key = label("operation")
            .zip(label("outcome"))
            .context("a label is missing")?;
        *calls.entry(key).or_default() += count.parse::<usize>()?;
    }
    Ok(calls)
}
