//! Starts the processes of a node, and ends them like a power cut.

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::Api;
use tokio::task::spawn_blocking;

use super::init::{self, NodeSpec};
use super::{END, Node, WITHIN, children, links, spec_file, tether};
use crate::plane::ready;
use crate::process::{ChildProcess, Program};
use crate::wait;

impl Node {
    /// Starts the node again after [`Node::power_off`], with the data that it had.
    ///
    /// # Errors
    ///
    /// When the node runs already, or does not become ready.
    pub async fn boot(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.is_none(), "{} runs already", self.name());
        let spec = NodeSpec::read(&spec_file(&self.directory))?;
        for folder in ["cni", "kubelet", "run", "var-lib", "var-lib-work"] {
            let folder = spec.data().join(folder);
            // The sockets of the former run must not remain.
            if folder.ends_with("run") && folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(folder)?;
        }
        let _ = fs::remove_file(spec.apiserver_ready());
        let process = self.start_process().await?;
        // The tether has started, so the data ends with the node again.
        let _ = fs::remove_file(spec.keep());
        let started = async {
            self.init = init_of(process.pid()).await?;
            let (slot, init) = (self.slot, self.init);
            spawn_blocking(move || links::connect(slot, init)).await??;
            ready(&self.client).await?;
            fs::write(spec.apiserver_ready(), "")?;
            self.load(&self.directory.join("pause.tar")).await?;
            self.until_ready().await
        };
        process.while_running(started).await?;
        self.process = Some(process);
        Ok(())
    }

    /// Starts the tether with the node's process 1.
    async fn start_process(&self) -> anyhow::Result<ChildProcess> {
        let spec = spec_file(&self.directory);
        let isolated = [
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ];
        let mut args: Vec<OsString> = isolated.map(OsString::from).into();
        args.extend([
            std::env::current_exe()?.into(),
            init::INIT.into(),
            spec.clone().into(),
        ]);
        let logs = self.directory.join("logs");
        let program = Program {
            name: self.name(),
            path: "unshare".into(),
            args,
            logs: &logs,
            remove: None,
        };
        let tether = [tether::HOLD.into(), spec.into()];
        let started = ChildProcess::start_under(&tether, program);
        // The tether prints nothing if it cannot lock the slot.
        started.await.map_err(|_| SlotTaken.into())
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client());
        wait::until(&nodes, self.name(), "ready", WITHIN, is_ready).await?;
        // The API server refuses Pods in a namespace without this ServiceAccount.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        wait::until(&accounts, "default", "there", WITHIN, |_| true).await?;
        Ok(())
    }

    /// Ends all processes at once, as a power cut does. The data stays until [`Node::boot`] or the end of this value.
    ///
    /// # Errors
    ///
    /// When the node does not run.
    pub async fn power_off(&mut self) -> anyhow::Result<()> {
        let process = self.process.take().context("the node does not run")?;
        let spec = NodeSpec::read(&spec_file(&self.directory))?;
        fs::write(spec.keep(), "")?;
        process.kill_within(END).await;
        Ok(())
    }
}

/// Another process has taken the slot between the search and the start.
#[derive(Debug)]
pub(super) struct SlotTaken;

impl std::fmt::Display for SlotTaken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .write_str("the tether of the node did not start; another node may use its addresses")
    }
}

impl std::error::Error for SlotTaken {}

/// Returns the only child of `unshare`.
async fn init_of(unshare: i32) -> anyhow::Result<i32> {
    wait::eventually("the process 1 of the node runs", WITHIN, || async {
        let first = children(unshare)?.first().copied();
        first.context("unshare has no child")
    })
    .await
}

fn is_ready(node: &NodeObject) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
