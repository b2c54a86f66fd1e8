//! Kubeconfigs that are valid in Pods.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::node::{ExposedPort, HOST, Node};

/// Servers of the host that Pods reach as long as this value exists, by their ports.
#[derive(Default)]
pub(super) struct ExposedServers(BTreeMap<u16, ExposedPort>);

impl ExposedServers {
    /// Returns a kubeconfig that is valid in Pods, with the first user of `users`. Exposes the port of the server.
    pub(super) async fn kubeconfig(
        &mut self,
        node: &Node,
        kubeconfig: &Path,
        users: Option<&Value>,
    ) -> anyhow::Result<String> {
        let mut kubeconfig: Value = serde_saphyr::from_str(&fs::read_to_string(kubeconfig)?)?;
        let server = field(&mut kubeconfig, "/clusters/0/cluster/server")?;
        let url: http::Uri = server.as_str().context("no server")?.parse()?;
        let port = url.port_u16().context("no port")?;
        *server = format!("https://{HOST}:{port}{}", url.path().trim_end_matches('/')).into();
        if let Some(users) = users {
            let name = users.pointer("/users/0/name").context("no user")?;
            *field(&mut kubeconfig, "/contexts/0/context/user")? = name.clone();
            *field(&mut kubeconfig, "/users")? = users.get("users").context("no users")?.clone();
        }
        if let Entry::Vacant(entry) = self.0.entry(port) {
            entry.insert(node.expose(port).await?);
        }
        Ok(kubeconfig.to_string())
    }
}

/// Returns a field that exists.
pub(super) fn field<'v>(value: &'v mut Value, pointer: &str) -> anyhow::Result<&'v mut Value> {
    value
        .pointer_mut(pointer)
        .with_context(|| format!("no field {pointer}"))
}
