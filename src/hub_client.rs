//! The connection of the commands that read the hub.

use std::path::Path;

use anyhow::Context;
use kube::Client;
use multicluster::connect;

use crate::user_agent::user_agent;

/// Returns a client of the hub, and the address of its API server. `command` is a part of the user agent.
///
/// # Errors
///
/// If the kubeconfig of `--federation-kubeconfig` cannot be used.
pub(crate) async fn connect(
    kubeconfig: &Path,
    context: Option<&str>,
    command: &str,
) -> anyhow::Result<(Client, String)> {
    let config = connect::kubeconfig(kubeconfig, context)
        .await
        .context("--federation-kubeconfig")?;
    let url = config.config.cluster_url.to_string();
    Ok((connect::client(config, &user_agent(command))?, url))
}
