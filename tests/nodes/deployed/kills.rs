//! The process of the leader is killed, under constant calls.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use harness::{Installation, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::WITHIN;
use super::changes::{REPLICAS, Report, lines};
use super::load::{FailedCall, Load};
use super::webhooks::{INTERPRET, Webhooks};
use super::{objects, replicas};

/// Time until another replica leads: the duration of the lease, and 1 s for a machine with much other load.
const AFTER_KILL: Duration = Duration::from_secs(15 + 1);
/// Time after a kill in which calls may fail: until the Service leads to the other replica alone.
const LOST: Duration = Duration::from_secs(5);
/// Memory that is left for the process that runs out of memory, in bytes.
const LEFT: u64 = 2 << 20;
/// Number and size in bytes of the requests that need more memory.
const LARGE_REQUESTS: usize = 16;
const LARGE: usize = 3 << 20;

/// A process is killed with SIGKILL.
pub(crate) async fn a_killed_leader_costs_only_the_calls_in_flight(
    installation: &Installation,
) -> anyhow::Result<()> {
    let kill = LeaderKill::prepare(installation).await?;
    let begin = Instant::now();
    replicas::kill(&kill.leader)?;
    kill.expect_take_over("killed", begin).await
}

/// The kernel kills a process because its container has no memory left.
pub(crate) async fn a_leader_out_of_memory_costs_only_the_calls_in_flight(
    installation: &Installation,
) -> anyhow::Result<()> {
    let kill = LeaderKill::prepare(installation).await?;
    let webhooks = Webhooks::of(installation).await?;
    let caller = webhooks.caller_of(&kill.leader, INTERPRET)?;
    let mut review = objects::interpretation();
    review["request"]["object"]["metadata"]["annotations"] = json!({"large": "x".repeat(LARGE)});
    replicas::limit_memory(&kill.leader, LEFT)?;
    let begin = Instant::now();
    let mut requests = JoinSet::new();
    for _ in 0..LARGE_REQUESTS {
        let (caller, review) = (caller.clone(), review.clone());
        // The requests fail, because their process ends.
        requests.spawn(async move { caller.post(&review).await.ok() });
    }
    kill.expect_take_over("out of memory", begin).await?;
    let pods: Api<Pod> = replicas::of_management(installation).pods;
    let leader = kill.leader.name_any();
    wait::until(&pods, &leader, "killed for its memory", WITHIN, |pod| {
        last_end(pod) == Some("OOMKilled")
    })
    .await
    .map(drop)
}

/// Returns why the former container of a Pod has ended.
fn last_end(pod: &Pod) -> Option<&str> {
    let containers = pod.status.as_ref()?.container_statuses.as_deref()?;
    let last = containers.first()?.last_state.as_ref()?;
    last.terminated.as_ref()?.reason.as_deref()
}

/// The leader before its end, and the callers.
struct LeaderKill<'i> {
    installation: &'i Installation,
    load: Load,
    leader: Pod,
    /// The identity of the leader in the Lease.
    holder: String,
}

impl<'i> LeaderKill<'i> {
    async fn prepare(installation: &'i Installation) -> anyhow::Result<Self> {
        let replicas = replicas::of_management(installation);
        replicas.until_ready(REPLICAS).await?;
        let load = Load::start(installation).await?;
        let report = Report::new(&load);
        report.expect_no_failure("before the end").await?;
        Ok(Self {
            installation,
            load,
            leader: replicas.leader().await?,
            holder: replicas.holder().await?,
        })
    }

    /// Nothing tells a caller that a process was killed. The calls in flight fail, and the connections to the killed
    /// replica, until the kubelet has seen its end and the Service has lost its address.
    async fn expect_take_over(&self, what: &str, begin: Instant) -> anyhow::Result<()> {
        let replicas = replicas::of_management(self.installation);
        let taken = replicas.until_taken_over(&self.holder).await? - begin;
        let pods = replicas.until_ready(REPLICAS).await?;
        self.load.until_more_calls().await?;
        let failed = self.load.failed();
        let mut by_kind = BTreeMap::new();
        for call in &failed {
            *by_kind.entry(call.kind).or_insert(0) += 1;
        }
        let late = |call: &FailedCall| call.at.saturating_duration_since(begin);
        let lost = failed.iter().map(late).max().unwrap_or_default();
        eprintln!(
            "{what}: another replica leads after {:.1} s; calls failed for {:.1} s: {by_kind:?}; {}\n{}",
            taken.as_secs_f64(),
            lost.as_secs_f64(),
            self.load.counts(),
            lines(&failed)
        );
        ensure!(lost <= LOST, "calls failed for {lost:?}");
        let same = pods.iter().any(|pod| pod.uid() == self.leader.uid());
        ensure!(same, "the Pod was replaced, not its container");
        ensure!(
            taken <= AFTER_KILL,
            "another replica leads only after {taken:?}"
        );
        Ok(())
    }
}
