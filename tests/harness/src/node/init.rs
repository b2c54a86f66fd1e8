//! Process 1 of a node. It runs in its own mount, network and process namespaces. It prepares them, starts the programs
//! of the node, and ends with the first of them. The kernel then kills all other processes of the node.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use serde::{Deserialize, Serialize};

use super::cgroups;
use super::links::{self, INSIDE, ip};
use super::slot::Slot;
use super::system::run as run_program;
use crate::process::last_lines;

/// First command-line argument of the process 1.
pub(crate) const INIT: &str = "harness-node-init";
/// Number of lines of a program's log in the error. The error for the node shows a few lines more than these.
const LOG_LINES: usize = 10;
/// Time between two looks at a condition.
const POLL: Duration = Duration::from_millis(20);

/// What a node consists of.
#[derive(Deserialize, Serialize)]
pub(crate) struct NodeSpec {
    pub(crate) slot: Slot,
    /// Directory of the node's files.
    pub(crate) directory: PathBuf,
    /// Value of `PATH` for all programs.
    pub(crate) path: OsString,
    /// The programs that start at once.
    pub(crate) control_plane: Vec<NodeCommand>,
    /// The programs that start when the API server is ready.
    pub(crate) others: Vec<NodeCommand>,
}

impl NodeSpec {
    /// Reads the file of a node.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    /// Returns the directory of the files that end with the node.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Returns the file that the harness creates when the API server is ready.
    pub(crate) fn apiserver_ready(&self) -> PathBuf {
        self.directory.join("apiserver-ready")
    }

    /// Returns the file that exists while the data outlives the node.
    pub(crate) fn keep(&self) -> PathBuf {
        self.directory.join("keep")
    }

    /// Returns whether the data outlives the node.
    pub(crate) fn keeps_data(&self) -> bool {
        self.keep().exists()
    }
}

/// A program of a node.
#[derive(Deserialize, Serialize)]
pub(crate) struct NodeCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) log: PathBuf,
}

/// A started program.
struct Started<'s> {
    pid: Option<Pid>,
    command: &'s NodeCommand,
}

/// Runs the node that the file describes. Returns the exit code.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> i32 {
    let Some(spec) = args.next() else { return 2 };
    let Err(error) = try_run(Path::new(&spec));
    eprintln!("{error:#}");
    1
}

fn try_run(spec: &Path) -> anyhow::Result<std::convert::Infallible> {
    let spec = NodeSpec::read(spec)?;
    cgroups::join(&spec.slot.name())?;
    mount(&spec)?;
    configure_network(spec.slot.address())?;
    let mut started = Vec::new();
    for command in &spec.control_plane {
        started.push(start(&spec, command)?);
    }
    while !spec.apiserver_ready().exists() {
        while let Some((pid, _)) = reap(WaitOptions::NOHANG)? {
            fail_if_ended(&started, pid)?;
        }
        sleep(POLL);
    }
    for command in &spec.others {
        started.push(start(&spec, command)?);
    }
    loop {
        // Orphans of containers become children of process 1 too.
        if let Some((pid, _)) = reap(WaitOptions::empty())? {
            fail_if_ended(&started, pid)?;
        }
    }
}

/// Waits for a child that has ended. Returns `None` if there is none yet, or if a signal interrupted the wait.
fn reap(options: WaitOptions) -> anyhow::Result<Option<(Pid, WaitStatus)>> {
    match wait(options) {
        Ok(ended) => Ok(ended),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error).context("wait for the programs of the node"),
    }
}

fn fail_if_ended(started: &[Started<'_>], pid: Pid) -> anyhow::Result<()> {
    let ended = started.iter().find(|started| started.pid == Some(pid));
    match ended {
        Some(Started { command, .. }) => bail!(
            "{} has ended, see {}:\n{}",
            command.program.display(),
            command.log.display(),
            last_lines(&command.log, LOG_LINES)
        ),
        None => Ok(()),
    }
}

/// Gives the node its own files at the paths that programs and manifests expect. Nothing is created on the host.
fn mount(spec: &NodeSpec) -> anyhow::Result<()> {
    let data = spec.data();
    let [var_lib, work] = ["var-lib", "var-lib-work"].map(|name| data.join(name));
    // The kubelet and the CSI driver see each other's mounts.
    run_program("mount", ["--make-rshared", "/"])?;
    let overlay = format!(
        "lowerdir=/var/lib,upperdir={},workdir={}",
        var_lib.display(),
        work.display()
    );
    run_program(
        "mount",
        ["-t", "overlay", "-o", &overlay, "overlay", "/var/lib"],
    )?;
    for (source, target) in [
        (data.join("run"), "/run"),
        (data.join("kubelet"), "/var/lib/kubelet"),
        (data.join("cni"), "/var/lib/cni"),
        (spec.directory.join("var-log"), "/var/log"),
    ] {
        fs::create_dir_all(target).with_context(|| target.to_owned())?;
        run_program(
            "mount",
            ["--bind".as_ref(), source.as_os_str(), target.as_ref()],
        )?;
    }
    name_host(&data)
}

/// Gives the host a name, for the programs of the node.
fn name_host(data: &Path) -> anyhow::Result<()> {
    let (hosts, inside) = (data.join("hosts"), "/etc/hosts");
    let text = fs::read_to_string(inside).context(inside)?;
    fs::write(
        &hosts,
        format!("{text}\n{} {}\n", links::HOST, links::HOST_NAME),
    )?;
    run_program(
        "mount",
        ["--bind".as_ref(), hosts.as_os_str(), inside.as_ref()],
    )
    .map(drop)
}

fn configure_network(address: Ipv4Addr) -> anyhow::Result<()> {
    // The harness creates the link from outside.
    while ip(&format!("link show {INSIDE}")).is_err() {
        sleep(POLL);
    }
    ip("link set lo up")?;
    ip(&format!("addr add {address}/24 dev {INSIDE}"))?;
    ip(&format!("link set {INSIDE} up"))?;
    ip(&format!("route add default via {}", links::HOST))?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("ip_forward")
}

fn start<'s>(spec: &NodeSpec, command: &'s NodeCommand) -> anyhow::Result<Started<'s>> {
    let NodeCommand { program, args, log } = command;
    let output = OpenOptions::new().create(true).append(true).open(log)?;
    let child = Command::new(program)
        .args(args)
        .current_dir(&spec.directory)
        .env("PATH", &spec.path)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| program.display().to_string())?;
    Ok(Started {
        pid: Pid::from_raw(child.id().cast_signed()),
        command,
    })
}
