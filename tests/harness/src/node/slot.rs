//! A slot is a number that only one node of this machine uses at a time. The addresses of the node, the names of its
//! network link and of its cgroups follow from the number.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{cgroups, links};

/// Directory of the lock files.
const LOCKS: &str = "/run/compute-federation";
/// The slots. The second byte of a node's Pod network is at most 149, because Service networks begin at 151.
const SLOTS: std::ops::RangeInclusive<u8> = 1..=49;
/// The name of a node's link and cgroups. A name of a link has at most 15 bytes.
const NAME: &str = "compute-node-";
/// Number of searches of this process.
static SEARCHES: AtomicU32 = AtomicU32::new(0);

/// A slot.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Slot(u8);

impl Slot {
    /// Returns a slot that no node uses. Another process may lock the slot before the caller does.
    pub(crate) fn find() -> anyhow::Result<Self> {
        // Nodes that start at the same time search from different slots.
        let count = u32::from(*SLOTS.end());
        let begin = std::process::id().wrapping_add(SEARCHES.fetch_add(1, Ordering::Relaxed));
        let begin = u8::try_from(begin % count)?;
        SLOTS
            .map(|offset| Self((begin + offset) % SLOTS.end() + 1))
            .find(|slot| slot.lock().is_ok())
            .context("all addresses for nodes are in use")
    }

    /// Returns the name of the link on the host, and of the cgroups.
    pub(crate) fn name(self) -> String {
        format!("{NAME}{}", self.0)
    }

    /// Returns the address of the node.
    pub(crate) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 30, 0, 10 + self.0)
    }

    /// Returns the URL of the API server.
    pub(crate) fn url(self) -> String {
        format!("https://{}:6443", self.address())
    }

    /// Returns the network of the Pods.
    pub(crate) fn pods(self) -> String {
        format!("10.{}.0.0/24", 100 + self.0)
    }

    /// Returns the network of the Services.
    pub(crate) fn services(self) -> String {
        format!("10.{}.0.0/24", 150 + self.0)
    }

    /// Returns the address of the Service `kubernetes`.
    pub(crate) fn kubernetes_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 150 + self.0, 0, 1)
    }

    /// Returns the address of the DNS Service.
    pub(crate) fn dns_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 150 + self.0, 0, 10)
    }

    /// Locks the slot. The kernel releases the lock when the process ends.
    pub(crate) fn lock(self) -> anyhow::Result<SlotLock> {
        let file = open_lock(&self.name())?;
        file.try_lock()
            .with_context(|| format!("another node uses {}", self.name()))?;
        Ok(SlotLock { slot: self, file })
    }
}

/// A locked slot.
pub(crate) struct SlotLock {
    slot: Slot,
    file: File,
}

impl SlotLock {
    /// Records the directory of the node's data in the lock file. If no process removes the data at the end of the
    /// node, [`sweep_unused`] does.
    pub(crate) fn record(&self, data: &Path) -> anyhow::Result<()> {
        let path = lock_path(&self.slot.name());
        fs::write(&path, data.as_os_str().as_encoded_bytes())
            .with_context(|| path.display().to_string())
    }

    /// Removes all that a node of this slot has left on the machine. Ends processes that still run in the node's
    /// cgroups. Keeps the data if `keep_data`.
    pub(crate) fn sweep(&self, keep_data: bool) -> anyhow::Result<()> {
        cgroups::remove(&self.slot.name())?;
        links::remove(self.slot)?;
        let data = fs::read_to_string(lock_path(&self.slot.name()))?;
        if !keep_data && !data.is_empty() {
            // An error means that the directory has been removed already.
            let _ = fs::remove_dir_all(&data);
        }
        self.file.set_len(0)?;
        Ok(())
    }
}

/// Removes what nodes have left if their tethers were killed too.
pub(crate) fn sweep_unused() -> anyhow::Result<()> {
    for slot in SLOTS.map(Slot) {
        let data = fs::metadata(lock_path(&slot.name()));
        let remains = data.is_ok_and(|data| data.len() > 0) || cgroups::exist(&slot.name());
        if !remains {
            continue;
        }
        // A locked slot is in use.
        if let Ok(lock) = slot.lock() {
            lock.sweep(false)?;
        }
    }
    Ok(())
}

/// Opens a lock file. Creates it if it does not exist.
pub(crate) fn open_lock(name: &str) -> anyhow::Result<File> {
    fs::create_dir_all(LOCKS).context(LOCKS)?;
    let path = lock_path(name);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    file.with_context(|| path.display().to_string())
}

fn lock_path(name: &str) -> PathBuf {
    Path::new(LOCKS).join(format!("{name}.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_different_addresses_and_valid_names() {
        let pods: Vec<_> = SLOTS.map(|slot| Slot(slot).pods()).collect();
        for slot in SLOTS.map(Slot) {
            assert!(!pods.contains(&slot.services()), "{slot:?}");
            assert!(slot.name().len() <= 15, "{slot:?}");
        }
    }
}
