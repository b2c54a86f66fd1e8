//! The cgroups of a node. Every cgroup v1 hierarchy has one for the node, with one for its own processes below. The
//! kubelet creates those of the Pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

const HIERARCHIES: &str = "/sys/fs/cgroup";
/// The cgroup of the node's own processes.
const SYSTEM: &str = "system";
/// Number of attempts to end all processes, and the time between them. Together they are 20 s.
const ATTEMPTS: u32 = 1000;
const BETWEEN: Duration = Duration::from_millis(20);

/// Returns the cgroup v1 hierarchies.
pub(crate) fn hierarchies() -> Vec<PathBuf> {
    let mut hierarchies = below(Path::new(HIERARCHIES));
    // cgroup v2 has no file of this name.
    hierarchies.retain(|path| path.join("tasks").is_file());
    hierarchies.sort();
    hierarchies
}

/// Returns the cgroups of this name in all hierarchies. containerd also creates one in cgroup v2.
fn existing(name: &str) -> Vec<PathBuf> {
    let hierarchies = below(Path::new(HIERARCHIES)).into_iter();
    let groups = hierarchies.map(|hierarchy| hierarchy.join(name));
    groups.filter(|group| group.exists()).collect()
}

/// Returns whether a node has cgroups.
pub(crate) fn exist(name: &str) -> bool {
    !existing(name).is_empty()
}

/// Creates the cgroups of a node, and moves this process into them.
pub(crate) fn join(name: &str) -> anyhow::Result<()> {
    for hierarchy in hierarchies() {
        let node = hierarchy.join(name);
        let system = node.join(SYSTEM);
        fs::create_dir_all(&system).with_context(|| system.display().to_string())?;
        // A new cgroup of the hierarchy `cpuset` accepts processes only after these files have a value.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read_to_string(hierarchy.join(file)) {
                fs::write(node.join(file), &value)?;
                fs::write(system.join(file), &value)?;
            }
        }
        // The kernel reads 0 as the writing process.
        fs::write(system.join("cgroup.procs"), "0")
            .with_context(|| system.display().to_string())?;
    }
    Ok(())
}

/// Ends the processes in the cgroups of a node, and removes the cgroups.
pub(crate) fn remove(name: &str) -> anyhow::Result<()> {
    let mut left = Vec::new();
    for _ in 0..ATTEMPTS {
        let groups = existing(name);
        for pid in groups.iter().flat_map(|group| processes(group)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        for group in &groups {
            // A cgroup with processes cannot be removed yet.
            let _ = remove_tree(group);
        }
        left = existing(name);
        if left.is_empty() {
            return Ok(());
        }
        sleep(BETWEEN);
    }
    ensure!(left.is_empty(), "cgroups cannot be removed: {left:?}");
    Ok(())
}

/// Returns the processes in a cgroup and in those below it.
pub(crate) fn processes(group: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<_> = text
        .lines()
        .filter_map(|line| Pid::from_raw(line.parse().ok()?))
        .collect();
    pids.extend(below(group).iter().flat_map(|group| processes(group)));
    pids
}

fn remove_tree(group: &Path) -> std::io::Result<()> {
    for group in below(group) {
        remove_tree(&group)?;
    }
    fs::remove_dir(group)
}

fn below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.is_dir()).collect()
}
