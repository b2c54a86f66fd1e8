//! Copies the data of the hub's own etcd, and restores an older copy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use futures::future::join_all;
use rustix::process::Signal;

use super::Federation;
use super::parts::HUB_ETCD;
use crate::karmada;
use crate::process::{ChildProcess, StartCommand};

/// A copy of the data of the hub's etcd.
#[must_use]
pub struct Snapshot {
    data: PathBuf,
    copy: PathBuf,
}

/// Karmada's controllers and scheduler while they are stopped.
#[must_use]
pub struct KarmadaStopped {
    controllers: StartCommand,
    scheduler: StartCommand,
}

/// Karmada's controllers while only the controllers that do not write to cells run.
#[must_use]
pub struct KarmadaHeld(StartCommand);

impl Federation {
    /// Copies the data of the hub's etcd. etcd keeps running.
    ///
    /// # Errors
    ///
    /// When the hub has no etcd of its own, or the data cannot be copied.
    pub fn snapshot_hub(&self) -> anyhow::Result<Snapshot> {
        let etcd = self.others.iter().find(|it| it.name() == HUB_ETCD);
        let etcd = etcd.context("the hub has no etcd of its own")?;
        let data = self.directory.join(HUB_ETCD);
        let copy = self.directory.join("hub-snapshot");
        // etcd is suspended during the copy. The copy therefore equals the data on disk after a crash of etcd.
        etcd.signal(Signal::STOP)?;
        let copied = copy_directory(&data, &copy);
        etcd.signal(Signal::CONT)?;
        copied?;
        Ok(Snapshot { data, copy })
    }

    /// Restores the hub from a snapshot. Ends every process of the hub, including Karmada's processes, because their
    /// caches contain objects that are not in the snapshot. Then restarts all of these processes except Karmada's
    /// controllers and scheduler.
    ///
    /// # Errors
    ///
    /// When a process does not become ready again.
    pub async fn restore_hub(&mut self, snapshot: Snapshot) -> anyhow::Result<KarmadaStopped> {
        let is_of_hub = |name: &str| name == HUB_ETCD || name.starts_with(karmada::PREFIX);
        let all = std::mem::take(&mut self.others);
        let (of_hub, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| is_of_hub(it.name()));
        self.others = others;
        let programs: Vec<_> = of_hub.iter().map(ChildProcess::again).collect();
        join_all(of_hub.into_iter().map(ChildProcess::kill)).await;
        let controller_manager = self.hub.kill_controller_manager().await;
        self.hub.kill_apiserver().await;
        let (etcd, karmada): (Vec<_>, Vec<_>) =
            programs.into_iter().partition(|it| it.name() == HUB_ETCD);
        let mut servers = karmada;
        let mut take = |name: &str| {
            let index = servers.iter().position(|it| it.name() == name);
            index
                .map(|index| servers.remove(index))
                .context(name.to_owned())
        };
        let controllers = take(karmada::CONTROLLERS)?;
        let scheduler = take(karmada::SCHEDULER)?;

        ensure!(!snapshot.data.exists(), "etcd's data go with its process");
        fs::rename(&snapshot.copy, &snapshot.data)?;
        self.start_again(etcd).await?;
        self.hub.restart_apiserver().await?;
        self.hub
            .start_controller_manager(controller_manager)
            .await?;
        self.start_again(servers).await?;
        karmada::serving(&self.hub.client()).await?;
        Ok(KarmadaStopped {
            controllers,
            scheduler,
        })
    }

    /// Restarts Karmada's scheduler, and those of Karmada's controllers that do not write to cells.
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub async fn start_karmada_held(
        &mut self,
        stopped: KarmadaStopped,
    ) -> anyhow::Result<KarmadaHeld> {
        let held = karmada::held(&stopped.controllers);
        self.start_again(vec![stopped.scheduler, held]).await?;
        Ok(KarmadaHeld(stopped.controllers))
    }

    /// Restarts Karmada's controllers, including those that write to cells.
    ///
    /// # Errors
    ///
    /// When Karmada's controllers cannot be started.
    pub async fn release_karmada(&mut self, held: KarmadaHeld) -> anyhow::Result<()> {
        let index = self.others.iter().position(|it| it.name() == held.0.name());
        let controllers = index.map(|index| self.others.remove(index));
        controllers
            .context("Karmada's controllers do not run")?
            .kill()
            .await;
        self.start_again(vec![held.0]).await
    }

    async fn start_again(&mut self, programs: Vec<StartCommand>) -> anyhow::Result<()> {
        for program in programs {
            self.others.push(program.start().await?);
        }
        Ok(())
    }
}

fn copy_directory(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_directory(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
        }
    }
    Ok(())
}
