//! Functions that all tests share.

use std::path::{Path, PathBuf};

use harness::node::NodePrograms;
use harness::peers::Peers;
use harness::{Node, NodeConfig};

/// Starts a node without addons.
pub(crate) async fn start(name: &str) -> anyhow::Result<Node> {
    let node = Node::start(&config(name)?).await?;
    eprintln!(
        "node {name} ready after {:.1} s in {}",
        node.ready_after().as_secs_f64(),
        node.directory().display()
    );
    Ok(node)
}

/// Starts a node with DNS, cert-manager, and the image of the probe.
pub(crate) async fn start_with_addons(name: &str) -> anyhow::Result<Node> {
    let node = start(name).await?;
    let probe = programs()?.program("probe");
    tokio::try_join!(node.install_dns(), node.install_cert_manager(), async {
        node.load_programs(PROBE, &[probe]).await
    },)?;
    Ok(node)
}

/// The image of the probe.
pub(crate) const PROBE: &str = "localhost/probe:1";

fn config(name: &str) -> anyhow::Result<NodeConfig> {
    Ok(NodeConfig {
        name: name.to_owned(),
        target: target(),
        peers: Peers::find_or_build(|progress| eprintln!("{progress}"))?,
        programs: programs()?,
        apiserver_flags: Vec::new(),
    })
}

pub(crate) fn programs() -> anyhow::Result<NodePrograms> {
    NodePrograms::find_or_build(|progress| eprintln!("{progress}"))
}

/// Returns the binary under test: `COMPUTE_FEDERATION_BINARY`, or else the one of this build.
pub(crate) fn binary() -> PathBuf {
    let binary = std::env::var_os("COMPUTE_FEDERATION_BINARY");
    binary.map_or_else(
        || env!("CARGO_BIN_EXE_compute-federation").into(),
        PathBuf::from,
    )
}

/// Returns Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap_or(temporary).to_owned()
}
