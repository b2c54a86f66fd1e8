//! Checks whether this machine can run nodes.

use rustix::process::geteuid;

use super::system::run;
use super::{cgroups, debian};
use crate::inotify;

/// Programs of the system that a node needs, and the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 10] = [
    ("bash", "bash"),
    ("cc", "gcc"),
    ("ip", "iproute2"),
    ("ldd", "libc-bin"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("pkg-config", "pkg-config"),
    ("strip", "binutils"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
];
/// What a node does with namespaces, links and mounts.
const TRIAL: &str = "ip link add trial type bridge && ip link add here type veth peer name there \
                     && mount -t tmpfs trial /mnt && mkdir /mnt/up /mnt/work \
                     && mount -t overlay -o lowerdir=/var,upperdir=/mnt/up,workdir=/mnt/work trial /var";

/// Checks whether this machine can run nodes. Raises the limit of inotify instances.
///
/// # Errors
///
/// The reason, with the remedy if there is one.
pub fn check() -> Result<(), String> {
    if !geteuid().is_root() {
        return Err("nodes need root".to_owned());
    }
    for (program, package) in PROGRAMS {
        if !debian::in_path(program) {
            return Err(format!(
                "nodes need {program}; install the package {package}"
            ));
        }
    }
    if !debian::in_path("iptables") && !debian::can_fetch() {
        return Err("nodes need iptables; install it".to_owned());
    }
    check_cgroups()?;
    inotify::ensure_instances().map_err(|error| error.to_string())?;
    let isolated = ["--mount", "--net", "--pid", "--fork", "--mount-proc"];
    let trial = isolated.iter().chain(&["sh", "-c", TRIAL]);
    run("unshare", trial)
        .map(drop)
        .map_err(|error| format!("nodes need namespaces, bridges and overlayfs: {error:#}"))
}

fn check_cgroups() -> Result<(), String> {
    let hierarchies = cgroups::hierarchies();
    for name in ["cpu", "cpuset", "memory", "pids"] {
        if !hierarchies
            .iter()
            .any(|hierarchy| hierarchy.ends_with(name))
        {
            return Err(format!("nodes need the cgroup v1 hierarchy {name:?}"));
        }
    }
    for hierarchy in hierarchies {
        let trial = hierarchy.join(format!("compute-trial-{}", std::process::id()));
        let created = std::fs::create_dir(&trial).and_then(|()| std::fs::remove_dir(&trial));
        if let Err(error) = created {
            return Err(format!(
                "nodes need write access to cgroups: {}: {error}",
                trial.display()
            ));
        }
    }
    Ok(())
}
