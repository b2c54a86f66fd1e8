//! A Kubernetes cluster with one real node: etcd, API server, controller manager, scheduler, containerd, kubelet and
//! kube-proxy.
//!
//! The node has its own mount, network and process namespaces, so its paths and ports are the usual ones. The host
//! reaches the node, its Pods and its Services by their addresses. Pods reach the host at [`HOST`].
//!
//! A tether ends the node when the harness ends for any reason, and then removes its cgroups, links and data. Mounts
//! and processes end with the namespaces. If the tether is killed too, the next node of any process removes what is
//! left.

mod addons;
mod boot;
mod cgroups;
mod debian;
mod exposed_port;
pub mod image;
pub(crate) mod init;
mod links;
mod needs;
mod pki;
mod programs;
mod settings;
mod slot;
mod system;
pub(crate) mod tether;

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::Client;
use multicluster::connect;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

pub use addons::ISSUER_NAME;
pub use exposed_port::ExposedPort;
pub use links::HOST;
pub use needs::check;
pub use programs::NodePrograms;

use crate::files;
use crate::inotify;
use crate::peers::Peers;
use crate::plane::USER_AGENT;
use crate::process::ChildProcess;
use crate::wait;
use boot::SlotTaken;
use init::NodeSpec;
use pki::NodePki;
use settings::{CONTAINERD, PAUSE, PKI, Settings};
use slot::Slot;

/// Time limit for each step of a start. On a quiet machine, a node is ready after 5 s.
const WITHIN: Duration = Duration::from_mins(2);
/// Time limit for the tether to end the node and to remove what it leaves.
const END: Duration = Duration::from_mins(1);
/// Number of attempts to start a node. Another process may take the slot first.
const ATTEMPTS: u32 = 3;

/// What a node consists of.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name of the Node object, and of the cluster.
    pub name: String,
    /// Cargo's target directory. The files of the node are below it.
    pub target: PathBuf,
    /// The programs of the control plane.
    pub peers: Peers,
    /// The programs of the node.
    pub programs: NodePrograms,
    /// Additional flags of the API server.
    pub apiserver_flags: Vec<OsString>,
}

/// A running node with its cluster. It ends when the value is dropped, or when the process that owns the value ends.
pub struct Node {
    config: NodeConfig,
    directory: PathBuf,
    slot: Slot,
    client: Client,
    process: Option<ChildProcess>,
    init: i32,
    ready_after: Duration,
}

impl Node {
    /// Starts a node and waits until it is ready for Pods.
    ///
    /// # Errors
    ///
    /// When a program of the node ends, or the node does not become ready. The error contains the path of the logs.
    pub async fn start(config: &NodeConfig) -> anyhow::Result<Self> {
        inotify::ensure_instances()?;
        spawn_blocking(slot::sweep_unused).await??;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let directory = files::create(&config.target, &config.name)?;
            let slot = Slot::find()?;
            let started = Self::start_in(config, &directory, slot).await;
            match started {
                Err(error) if error.is::<SlotTaken>() => last = Some(error),
                started => {
                    return started.with_context(|| {
                        format!("the node in {} did not start", directory.display())
                    });
                }
            }
        }
        Err(last.unwrap_or_else(|| SlotTaken.into()))
    }

    async fn start_in(config: &NodeConfig, directory: &Path, slot: Slot) -> anyhow::Result<Self> {
        let begin = Instant::now();
        for folder in ["cni", "logs", PKI, "var-log"] {
            fs::create_dir_all(directory.join(folder))?;
        }
        NodePki::create(&directory.join(PKI), &config.name, slot)?;
        let settings = Settings {
            name: &config.name,
            slot,
            directory,
            peers: &config.peers,
            programs: &config.programs,
        };
        settings.write_files()?;
        let spec = NodeSpec {
            slot,
            directory: directory.to_owned(),
            path: search_path(&config.programs)?,
            control_plane: settings.control_plane(&config.apiserver_flags),
            others: settings.others(),
        };
        fs::write(spec_file(directory), serde_json::to_string(&spec)?)?;
        image::write(
            PAUSE,
            &[config.programs.program("pause")],
            &directory.join("pause.tar"),
        )?;
        let kubeconfig = connect::kubeconfig(&kubeconfig(directory), None).await?;
        let mut node = Self {
            config: config.clone(),
            directory: directory.to_owned(),
            slot,
            client: connect::client(kubeconfig, USER_AGENT)?,
            process: None,
            init: 0,
            ready_after: Duration::ZERO,
        };
        node.boot().await?;
        node.ready_after = begin.elapsed();
        Ok(node)
    }

    /// Returns the name of the Node object.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the directory of logs, kubeconfigs and certificates. The logs of Pods are in `var-log/pods`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns a client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a self-contained kubeconfig with all rights. It is valid on the host and in Pods.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig(&self.directory)
    }

    /// Returns the URL of the API server. It is also the issuer of the tokens of ServiceAccounts.
    pub fn url(&self) -> String {
        self.slot.url()
    }

    /// Returns the CA of the API server in PEM.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn authority(&self) -> anyhow::Result<String> {
        let file = self.directory.join(PKI).join("ca.crt");
        fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Returns the path of the audit log of the API server.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("logs/audit.log")
    }

    /// Returns the address of the Service of [`Node::install_dns`].
    pub fn dns_address(&self) -> Ipv4Addr {
        self.slot.dns_service()
    }

    /// Returns the name of the node's cgroup in every cgroup hierarchy. The cgroup contains all processes of the node
    /// and of its Pods.
    pub fn cgroup(&self) -> String {
        self.slot.name()
    }

    /// Returns the process 1 of the node, as the host sees it.
    pub fn init(&self) -> i32 {
        self.init
    }

    /// Returns the process ids of the tether and of the node's process 1.
    pub fn pids(&self) -> Vec<i32> {
        let process = self.process.as_ref();
        let tether = process.map(|process| process.tether_pid().cast_signed());
        tether.into_iter().chain([self.init]).collect()
    }

    /// Returns the time from the start until the node was ready.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Imports the images of a tar file. The kubelet then finds them without a registry.
    ///
    /// # Errors
    ///
    /// When containerd does not run or refuses the file.
    pub async fn load(&self, file: &Path) -> anyhow::Result<()> {
        let socket = PathBuf::from(format!("/proc/{}/root{CONTAINERD}", self.init));
        let containerd = wait::eventually("containerd serves", WITHIN, || async {
            ensure!(socket.exists(), "{} does not exist", socket.display());
            Ok(())
        });
        containerd.await?;
        let program = self.config.programs.program("ctr");
        let args: Vec<OsString> = vec![
            "--address".into(),
            socket.clone().into(),
            "--namespace=k8s.io".into(),
            "images".into(),
            "import".into(),
            file.into(),
        ];
        spawn_blocking(move || system::run(program, args)).await??;
        Ok(())
    }

    /// Packs programs of this machine into an image and imports it. The first program is the entry point.
    ///
    /// # Errors
    ///
    /// When a program does not exist, or containerd refuses the image.
    pub async fn load_programs(&self, image: &str, programs: &[PathBuf]) -> anyhow::Result<()> {
        let file = image.replace(['/', ':'], "-") + ".tar";
        let file = self.directory.join(file);
        let (name, programs, tar) = (image.to_owned(), programs.to_owned(), file.clone());
        spawn_blocking(move || image::write(&name, &programs, &tar)).await??;
        self.load(&file).await?;
        Ok(fs::remove_file(file)?)
    }

    /// Sends a signal to a program of the node, such as `kubelet`.
    ///
    /// # Errors
    ///
    /// When the program does not run.
    pub fn signal(&self, program: &str, signal: Signal) -> anyhow::Result<()> {
        let pid = children(self.init)?.into_iter().find(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let first = command.split('\0').next().unwrap_or_default();
            Path::new(first).ends_with(program)
        });
        let pid = pid.and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{program} does not run on {}", self.name()))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the node ends unexpectedly. Returns an error with the end of the log.
    pub async fn death(&self) -> anyhow::Error {
        match &self.process {
            Some(process) => process.life().death(process.ended().await),
            None => std::future::pending().await,
        }
    }

    /// Ends the node and waits until nothing of it is left. Logs stay on disk.
    pub async fn stop(mut self) {
        if let Some(process) = self.process.take() {
            process.kill_within(END).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A running node has a tether that removes the data. A node without power has none.
        if self.process.is_none() {
            let _ = fs::remove_dir_all(self.directory.join("data"));
        }
    }
}

/// Removes what nodes have left whose harness and tether were both killed.
///
/// # Errors
///
/// When cgroups or links cannot be removed.
pub fn sweep() -> anyhow::Result<()> {
    slot::sweep_unused()
}

fn spec_file(directory: &Path) -> PathBuf {
    directory.join("node.json")
}

fn kubeconfig(directory: &Path) -> PathBuf {
    directory.join(PKI).join("admin.kubeconfig")
}

/// Returns `PATH` with the programs of the node in front.
fn search_path(programs: &NodePrograms) -> anyhow::Result<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(programs.directory().to_owned());
    Ok(std::env::join_paths(
        folders.chain(std::env::split_paths(&inherited)),
    )?)
}

fn children(pid: i32) -> anyhow::Result<Vec<i32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children = text.split_whitespace().map(str::parse);
    Ok(children.collect::<Result<_, _>>()?)
}
