//! A federation that was detached from the process that started it.

use std::fs;
use std::path::{Path, PathBuf};

use super::parts::{ETCD, HUB_ETCD};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Name of the file with the processes of a detached federation, in the federation's directory.
pub(crate) const KEPT_STATE: &str = "kept.json";

/// The processes of a detached federation.
#[derive(Deserialize, Serialize)]
pub(super) struct KeptProcesses {
    pub(super) tethers: Vec<u32>,
}

/// Ends every detached federation below this target directory, and returns their directories.
///
/// # Errors
///
/// When the directories cannot be read.
pub fn stop_kept(target: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut stopped = Vec::new();
    for directory in fs::read_dir(target.join("federation"))
        .into_iter()
        .flatten()
    {
        let directory = directory?.path();
        let state = directory.join(KEPT_STATE);
        let Ok(text) = fs::read_to_string(&state) else {
            continue;
        };
        let kept: KeptProcesses =
            serde_json::from_str(&text).with_context(|| state.display().to_string())?;
        let tethers = kept
            .tethers
            .into_iter()
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        for tether in tethers.filter(|tether| is_tether(*tether)) {
            // When the tether ends, the kernel kills the program. An error means that the tether has already ended.
            let _ = kill_process(tether, Signal::KILL);
        }
        fs::remove_file(&state)?;
        // A killed tether does not remove the data of etcd.
        for etcd in [ETCD, HUB_ETCD] {
            let _ = fs::remove_dir_all(directory.join(etcd));
        }
        stopped.push(directory);
    }
    Ok(stopped)
}

/// Returns whether a process is a tether. The process id of an ended tether may belong to another process now.
fn is_tether(pid: Pid) -> bool {
    let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(crate::tether::HOLD.as_bytes())
}
