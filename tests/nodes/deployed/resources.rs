//! Memory and CPU of the containers, as their cgroups count them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use fuzz::hostile;
use harness::Installation;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::CELL;
use super::changes::REPLICAS;
use super::flow::{create_settled, no_container_has_restarted};
use super::load::Load;
use super::replicas::{self, Replicas};
use super::webhooks::{INTERPRET, VALIDATE, Webhooks};

/// Duration of each measurement.
const PERIOD: Duration = Duration::from_mins(1);
/// Number of Instances of the Workload.
const INSTANCES: i32 = 20;
/// Number of concurrent callers with hostile bodies, for each protocol.
const CALLERS: usize = 32;
/// Size of a hostile body: `MAX_BODY` of the overlay `management-plane`.
const LARGEST: usize = 4 << 20;
/// Time limit of a call with a hostile body.
const CALL: Duration = Duration::from_secs(10);
const MIB: u64 = 1 << 20;

/// Prints a table, and checks that every container stays below its limit.
pub(crate) async fn memory_and_cpu_of_the_pods(installation: &Installation) -> anyhow::Result<()> {
    let replicas = replicas::of_management(installation);
    let pods = replicas.until_ready(REPLICAS).await?;
    let leader = replicas.leader().await?;
    let cell = Replicas::of(&installation.cell(CELL)?.client());
    let mut containers = Vec::new();
    for pod in &pods {
        let role = match pod.uid() == leader.uid() {
            true => "management, leader",
            false => "management, standby",
        };
        containers.push(Container::of(role, pod)?);
    }
    for pod in cell.until_ready(1).await? {
        containers.push(Container::of("cell", &pod)?);
    }
    create_settled(installation, INSTANCES).await?;
    eprintln!("| container | load | memory, MiB | highest, MiB | CPU, millicores |");
    eprintln!("|---|---|---|---|---|");
    measure(&containers, "at rest").await?;
    let load = Load::start(installation).await?;
    measure(&containers, "calls").await?;
    eprintln!("{}", load.counts());
    let hostile = send_hostile_bodies(&Webhooks::of(installation).await?);
    measure(&containers, "hostile bodies").await?;
    drop((hostile, load));
    no_container_has_restarted(installation.management()).await?;
    for container in &containers {
        let (highest, limit) = (container.highest()?, container.limit()?);
        ensure!(
            highest < limit,
            "{}: {highest} of {limit} bytes",
            container.role
        );
    }
    Ok(())
}

/// Sends hostile bodies to admission and to the interpreter, until the tasks are dropped. Any answer is right.
fn send_hostile_bodies(webhooks: &Webhooks) -> JoinSet<()> {
    let mut callers = JoinSet::new();
    for (path, bodies) in [
        (INTERPRET, hostile::interpretations(LARGEST)),
        (VALIDATE, hostile::admissions(LARGEST)),
    ] {
        let bodies = bodies.into_iter().map(|hostile| Bytes::from(hostile.body));
        let bodies: Vec<_> = bodies.collect();
        for first in 0..CALLERS {
            let (caller, bodies) = (webhooks.caller(path), bodies.clone());
            callers.spawn(async move {
                for body in bodies.iter().cycle().skip(first) {
                    // A refused connection, a late answer and an error are right too.
                    let _answer = timeout(CALL, caller.send(body.clone())).await;
                }
            });
        }
    }
    callers
}

async fn measure(containers: &[Container], load: &str) -> anyhow::Result<()> {
    let begin = Instant::now();
    let before = containers.iter().map(Container::cpu_time);
    let before: Vec<_> = before.collect::<Result<_, _>>()?;
    // A measurement needs a period, not a condition.
    sleep(PERIOD).await;
    let period = begin.elapsed();
    for (container, before) in containers.iter().zip(before) {
        let used = container.cpu_time()?.saturating_sub(before);
        eprintln!(
            "| {} | {load} | {} | {} | {:.0} |",
            container.role,
            container.working_set()? / MIB,
            container.highest()? / MIB,
            used.as_secs_f64() / period.as_secs_f64() * 1000.0
        );
    }
    Ok(())
}

/// A container and its cgroups.
struct Container {
    role: &'static str,
    memory: PathBuf,
    cpu: PathBuf,
}

impl Container {
    fn of(role: &'static str, pod: &Pod) -> anyhow::Result<Self> {
        Ok(Self {
            role,
            memory: replicas::cgroup_of(pod, "memory")?,
            cpu: replicas::cgroup_of(pod, "cpuacct")?,
        })
    }

    fn bytes(&self, file: &str) -> anyhow::Result<u64> {
        Ok(fs::read_to_string(self.memory.join(file))?.trim().parse()?)
    }

    /// Returns the memory in bytes that cannot be reclaimed easily. `kubectl top` shows the same value.
    fn working_set(&self) -> anyhow::Result<u64> {
        let inactive = replicas::memory_statistic(&self.memory, "total_inactive_file")?;
        Ok(self
            .bytes("memory.usage_in_bytes")?
            .saturating_sub(inactive))
    }

    /// Returns the highest memory in bytes since the start of the container, with the cache of files.
    fn highest(&self) -> anyhow::Result<u64> {
        self.bytes("memory.max_usage_in_bytes")
    }

    fn limit(&self) -> anyhow::Result<u64> {
        self.bytes("memory.limit_in_bytes")
    }

    /// Returns the CPU time since the start of the container.
    fn cpu_time(&self) -> anyhow::Result<Duration> {
        let nanoseconds = fs::read_to_string(self.cpu.join("cpuacct.usage"))?;
        Ok(Duration::from_nanos(nanoseconds.trim().parse()?))
    }
}
