//! The Pods of the management process, its Lease, and its processes on the host.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use futures::StreamExt;
use harness::installation::{Installation, NAMESPACE};
use harness::wait;
use harness::wait::SteadyBackoff;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, ResourceExt};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, timeout};

use super::WITHIN;

/// Name of the Lease.
const LEASE: &str = "e98b06c6.datumapis.com";
/// The program in the image.
const PROGRAM: &str = "/manager";

/// The replicas in a cluster.
#[derive(Clone)]
pub(super) struct Replicas {
    pub(super) pods: Api<Pod>,
    leases: Api<Lease>,
}

impl Replicas {
    pub(super) fn of(client: &Client) -> Self {
        Self {
            pods: Api::namespaced(client.clone(), NAMESPACE),
            leases: Api::namespaced(client.clone(), NAMESPACE),
        }
    }

    /// Returns the Pods that do not terminate, sorted by name.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Pod>> {
        let mut pods = self.pods.list(&ListParams::default()).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// Waits until there are exactly this many Pods, and all of them are ready.
    pub(super) async fn until_ready(&self, count: usize) -> anyhow::Result<Vec<Pod>> {
        wait::eventually("all replicas are ready", WITHIN, || async {
            let pods = self.list().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(
                ready == count && pods.len() == count,
                "{ready} of {}",
                pods.len()
            );
            Ok(pods)
        })
        .await
    }

    /// Waits until a Pod does not exist.
    pub(super) async fn until_gone(&self, pod: &str) -> anyhow::Result<()> {
        wait::gone(&self.pods, pod, WITHIN).await
    }

    /// Evicts a Pod, as a drain does. Returns `false` if the PodDisruptionBudget refuses.
    pub(super) async fn evict(&self, pod: &str) -> anyhow::Result<bool> {
        match self.pods.evict(pod, &EvictParams::default()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the holder of the Lease. Waits until there is one.
    pub(super) async fn holder(&self) -> anyhow::Result<String> {
        let lease = wait::until(&self.leases, LEASE, "held", WITHIN, |lease| {
            !holder(lease).is_empty()
        });
        Ok(holder(&lease.await?).to_owned())
    }

    /// Returns the Pod that holds the Lease. The identity of a holder begins with the name of its Pod.
    pub(super) async fn leader(&self) -> anyhow::Result<Pod> {
        let holder = self.holder().await?;
        let (pod, _) = holder.rsplit_once('_').context("no identity of a Pod")?;
        Ok(self.pods.get(pod).await?)
    }

    /// Waits until another process than `former` holds the Lease. Returns the time of this event.
    pub(super) async fn until_taken_over(&self, former: &str) -> anyhow::Result<Instant> {
        let mut versions = watch_object(self.leases.clone(), LEASE)
            .backoff(SteadyBackoff)
            .boxed();
        let taken = async {
            while let Some(version) = versions.next().await {
                if let Ok(Some(lease)) = version
                    && !["", former].contains(&holder(&lease))
                {
                    return Ok(Instant::now());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        timeout(WITHIN, taken).await.context("nobody takes over")?
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the process of a Pod's container, as the host sees it.
pub(super) fn process_of(pod: &Pod) -> anyhow::Result<i32> {
    let uid = pod.uid().context("the Pod has no UID")?;
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        // A process may end between these steps.
        if read("cmdline").split('\0').next() == Some(PROGRAM) && read("cgroup").contains(&uid) {
            let pid = process.file_name().and_then(|name| name.to_str());
            return Ok(pid.context("no pid")?.parse()?);
        }
    }
    anyhow::bail!("{} has no process", pod.name_any())
}

/// Kills the process of a Pod's container.
pub(super) fn kill(pod: &Pod) -> anyhow::Result<()> {
    let pid = Pid::from_raw(process_of(pod)?).context("a pid")?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Limits the memory of a Pod's container to what its process uses now and `left` bytes. A container that starts again
/// has the limit of its manifest.
pub(super) fn limit_memory(pod: &Pod, left: u64) -> anyhow::Result<()> {
    let group = cgroup_of(pod, "memory")?;
    let limit = memory_statistic(&group, "total_rss")? + left;
    let file = group.join("memory.limit_in_bytes");
    fs::write(&file, limit.to_string()).with_context(|| file.display().to_string())
}

/// Returns the directory of the cgroup of a Pod's container, in the hierarchy of a controller.
pub(super) fn cgroup_of(pod: &Pod, controller: &str) -> anyhow::Result<PathBuf> {
    let process = process_of(pod)?;
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
    let separator = format!(":{controller}:/");
    let group = groups.lines().find_map(|line| line.split_once(&separator));
    let (_, group) = group.with_context(|| format!("no cgroup of {controller}"))?;
    Ok(Path::new("/sys/fs/cgroup").join(controller).join(group))
}

/// Returns a value of `memory.stat`, in bytes.
pub(super) fn memory_statistic(group: &Path, name: &str) -> anyhow::Result<u64> {
    let statistics = fs::read_to_string(group.join("memory.stat"))?;
    let mut lines = statistics.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(found, _)| *found == name);
    let (_, value) = line.with_context(|| format!("no {name}"))?;
    Ok(value.parse()?)
}

/// Waits until a process does not exist. Returns the time of this event.
pub(super) async fn until_ended(pid: i32) -> anyhow::Result<Instant> {
    wait::eventually("the process has ended", WITHIN, || async {
        ensure!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} runs");
        Ok(Instant::now())
    })
    .await
}

/// Returns the replicas of the management process.
pub(super) fn of_management(installation: &Installation) -> Replicas {
    Replicas::of(&installation.management().client())
}
