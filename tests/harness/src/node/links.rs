//! The network of the nodes on the host: one bridge, and a link and two routes per node.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::slot::{Slot, open_lock};
use super::system::run;

/// The bridge. Nodes reach each other and the host through it.
const BRIDGE: &str = "compute-nodes";
/// The address of the host on the bridge.
pub const HOST: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
/// The name of the host in the programs of a node. Docker Desktop uses the same name.
pub(crate) const HOST_NAME: &str = "host.docker.internal";
/// The name of the link inside the node.
pub(crate) const INSIDE: &str = "node0";

/// Connects a node. `init` is the process 1 of the node, as the host sees it. The host then reaches the node, its Pods
/// and its Services.
pub(crate) fn connect(slot: Slot, init: i32) -> anyhow::Result<()> {
    let _lock = lock()?;
    if !exists(BRIDGE) {
        ip(&format!("link add {BRIDGE} type bridge"))?;
        ip(&format!("addr add {HOST}/24 dev {BRIDGE}"))?;
    }
    ip(&format!("link set {BRIDGE} up"))?;
    let (name, address) = (slot.name(), slot.address());
    ip(&format!(
        "link add {name} type veth peer name {INSIDE} netns {init}"
    ))?;
    ip(&format!("link set {name} master {BRIDGE} up"))?;
    for network in [slot.pods(), slot.services()] {
        ip(&format!("route replace {network} via {address}"))?;
    }
    Ok(())
}

/// Removes the link and the routes of a node. Removes the bridge with the last node.
pub(crate) fn remove(slot: Slot) -> anyhow::Result<()> {
    let _lock = lock()?;
    if exists(&slot.name()) {
        // The kernel removes the link at about the same time, because its other end has gone with the node.
        let _ = ip(&format!("link del {}", slot.name()));
    }
    for network in [slot.pods(), slot.services()] {
        // An error means that there is no such route.
        let _ = ip(&format!("route del {network}"));
    }
    let ports = fs::read_dir(format!("/sys/class/net/{BRIDGE}/brif"));
    if ports.is_ok_and(|mut ports| ports.next().is_none()) {
        ip(&format!("link del {BRIDGE}"))?;
    }
    Ok(())
}

/// Locks the bridge. Otherwise one process could remove the bridge while another one connects a node.
fn lock() -> anyhow::Result<fs::File> {
    let lock = open_lock("bridge")?;
    lock.lock()?;
    Ok(lock)
}

fn exists(link: &str) -> bool {
    Path::new("/sys/class/net").join(link).exists()
}

/// Runs `ip` with these arguments.
pub(crate) fn ip(args: &str) -> anyhow::Result<String> {
    run("ip", args.split(' '))
}
