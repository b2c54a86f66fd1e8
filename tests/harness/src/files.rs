//! The directory of a federation.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::process::{Pid, test_kill_process};

/// Number of directories that are kept for their logs after their federations have ended.
const KEPT: usize = 8;

/// Creates `<target>/federation/<label>-<pid>[-<n>]`, and removes the oldest directories of ended federations.
pub(crate) fn create(target: &Path, label: &str) -> anyhow::Result<PathBuf> {
    let parent = target.join("federation");
    fs::create_dir_all(&parent).with_context(|| parent.display().to_string())?;
    prune(&parent)?;
    for count in 0.. {
        let suffix = if count == 0 {
            String::new()
        } else {
            format!("-{count}")
        };
        let directory = parent.join(format!("{label}{suffix}-{}", std::process::id()));
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            result => {
                result.with_context(|| directory.display().to_string())?;
                return Ok(fs::canonicalize(directory)?);
            }
        }
    }
    anyhow::bail!("no free directory below {}", parent.display())
}

fn prune(parent: &Path) -> anyhow::Result<()> {
    let mut ended = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.rsplit('-').next()?.parse().ok())
            .and_then(Pid::from_raw);
        let runs = pid.is_some_and(|pid| test_kill_process(pid).is_ok());
        if !runs && !entry.path().join(crate::federation::KEPT_STATE).exists() {
            ended.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    ended.sort();
    for (_, path) in ended.iter().take(ended.len().saturating_sub(KEPT)) {
        // Another process may remove the same directory at the same time.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}
