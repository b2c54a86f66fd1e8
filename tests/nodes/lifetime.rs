//! Tests of the life of a node. Nothing of it may be left on the machine after its end, for any reason of the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use harness::objects::apply;
use harness::{Node, node, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Runtime;

use crate::fixture::{self, PROBE};

/// First command-line argument of a holding process. This process starts a node and waits until it is killed.
const HOLD: &str = "hold-a-node";
/// Time limit for the end of a node.
const END: Duration = Duration::from_secs(30);

/// What a node puts on the machine.
#[derive(Debug, Deserialize, Serialize)]
struct Traces {
    /// The tether and the process 1.
    pids: Vec<i32>,
    /// The name of the cgroups and of the link.
    cgroup: String,
    directory: PathBuf,
}

impl Traces {
    fn of(node: &Node) -> Self {
        Self {
            pids: node.pids(),
            cgroup: node.cgroup(),
            directory: node.directory().to_owned(),
        }
    }

    /// Returns descriptions of all that is on the machine.
    fn found(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        let directory = self.directory.display().to_string();
        for entry in fs::read_dir("/proc")? {
            let process = entry?.path();
            // A process may end between these steps.
            let command = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            if command.contains(&directory) {
                found.push(format!("process {}: {command}", process.display()));
            }
        }
        for hierarchy in fs::read_dir("/sys/fs/cgroup")? {
            found.extend(existing(hierarchy?.path().join(&self.cgroup)));
        }
        found.extend(existing(Path::new("/sys/class/net").join(&self.cgroup)));
        found.extend(existing(self.directory.join("data")));
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mounts = mounts.lines().filter(|line| line.contains(&directory));
        found.extend(mounts.map(|line| format!("mount {line}")));
        Ok(found)
    }

    async fn until_gone(&self) -> anyhow::Result<()> {
        wait::eventually("nothing of the node is left", END, || async {
            let left = self.found()?;
            ensure!(left.is_empty(), "left: {left:#?}");
            Ok(())
        })
        .await?;
        // The logs must remain for a later diagnosis.
        let log = self.directory.join("logs/kubelet.log");
        ensure!(log.exists(), "{} is gone", log.display());
        Ok(())
    }

    /// Fails if the test looks at the wrong places.
    fn assert_complete(&self) -> anyhow::Result<()> {
        let found = self.found()?.join("\n");
        for trace in [
            "process",
            "/sys/fs/cgroup/memory",
            "/sys/class/net",
            "/data",
        ] {
            ensure!(found.contains(trace), "no {trace:?} in:\n{found}");
        }
        Ok(())
    }
}

fn existing(path: impl AsRef<Path>) -> Option<String> {
    let path = path.as_ref();
    path.exists().then(|| path.display().to_string())
}

/// Starts a node with a Pod and waits, if the command-line arguments request this.
pub(crate) fn hold(runtime: &Runtime) -> Option<ExitCode> {
    if std::env::args().nth(1).as_deref() != Some(HOLD) {
        return None;
    }
    let held: anyhow::Result<()> = runtime.block_on(async {
        let node = start_with_pod("held").await?;
        println!("{}", serde_json::to_string(&Traces::of(&node))?);
        Err(node.death().await)
    });
    if let Err(error) = held {
        eprintln!("{error:#}");
    }
    Some(ExitCode::FAILURE)
}

/// Starts a node with a running Pod.
async fn start_with_pod(name: &str) -> anyhow::Result<Node> {
    let node = fixture::start(name).await?;
    let probe = fixture::programs()?.program("probe");
    node.load_programs(PROBE, &[probe]).await?;
    let container = json!({
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "args": ["serve"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"containers": [container]},
    });
    apply(&node.client(), &pod).await?;
    until_pod_ready(&node).await?;
    Ok(node)
}

async fn until_pod_ready(node: &Node) -> anyhow::Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(node.client(), "default");
    wait::until(&pods, "probe", "ready", 2 * END, is_ready).await
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn hold_in_process() -> anyhow::Result<(Child, Traces)> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = process.stdout.take().context("the output is not piped")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let traces: Traces = serde_json::from_str(&line.context("the node did not start")?)?;
    traces.assert_complete()?;
    Ok((process, traces))
}

pub(crate) async fn nothing_is_left_of_a_stopped_node() -> anyhow::Result<()> {
    let node = start_with_pod("stopped").await?;
    let traces = Traces::of(&node);
    traces.assert_complete()?;
    node.stop().await;
    let left = traces.found()?;
    ensure!(left.is_empty(), "left: {left:#?}");
    traces.until_gone().await
}

pub(crate) async fn nothing_is_left_when_the_harness_is_killed() -> anyhow::Result<()> {
    let (mut process, traces) = hold_in_process().await?;
    process.kill().await?;
    traces.until_gone().await
}

pub(crate) async fn the_next_node_removes_what_a_killed_tether_left() -> anyhow::Result<()> {
    let (mut process, traces) = hold_in_process().await?;
    // A suspended harness cannot end the node. The kernel does, but nothing removes the cgroups and the data.
    kill(
        process.id().context("no process")?.cast_signed(),
        Signal::STOP,
    )?;
    kill(*traces.pids.first().context("no tether")?, Signal::KILL)?;
    wait::eventually("the node has ended", END, || async {
        let found = traces.found()?;
        let runs = found.iter().any(|trace| trace.starts_with("process"));
        ensure!(!runs, "{found:#?}");
        ensure!(!found.is_empty(), "something else has removed the rest");
        Ok(())
    })
    .await?;
    process.kill().await?;
    tokio::task::spawn_blocking(node::sweep).await??;
    traces.until_gone().await
}

fn kill(pid: i32, signal: Signal) -> anyhow::Result<()> {
    Ok(kill_process(Pid::from_raw(pid).context("a pid")?, signal)?)
}

pub(crate) async fn pods_return_after_a_power_cut() -> anyhow::Result<()> {
    let mut node = start_with_pod("power").await?;
    let restarts = |pod: &Pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        containers.and_then(|containers| Some(containers.first()?.restart_count))
    };
    let first = restarts(&until_pod_ready(&node).await?);
    node.power_off().await?;
    node.boot().await?;
    let pods: Api<Pod> = Api::namespaced(node.client(), "default");
    // The status of the former run says that the Pod is ready.
    wait::until(&pods, "probe", "ready again", 2 * END, |pod| {
        is_ready(pod) && restarts(pod) > first
    })
    .await?;
    let traces = Traces::of(&node);
    node.stop().await;
    traces.until_gone().await
}

pub(crate) async fn the_error_for_a_dead_kubelet_shows_its_log() -> anyhow::Result<()> {
    let node = fixture::start("dying").await?;
    let traces = Traces::of(&node);
    node.signal("kubelet", Signal::KILL)?;
    let death = node.death().await.to_string();
    let log = traces.directory.join("logs/kubelet.log");
    let expected = format!("kubelet has ended, see {}:", log.display());
    ensure!(death.contains(&expected), "{death}");
    drop(node);
    traces.until_gone().await
}
