//! Servers of the host, such as the API servers of a federation, listen on the loopback address. Pods cannot reach this
//! address of the host.

use std::net::Ipv4Addr;

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::{HOST, Node};

/// A port of the host's loopback address that nodes and Pods reach at [`HOST`]. It is closed when the value is dropped.
pub struct ExposedPort {
    connections: JoinHandle<()>,
}

impl Node {
    /// Forwards connections from nodes and Pods to a server on the host: from this port of [`HOST`] to the same port of
    /// the loopback address. It needs a running node, because the address exists only then.
    ///
    /// # Errors
    ///
    /// When the port is in use.
    pub async fn expose(&self, port: u16) -> anyhow::Result<ExposedPort> {
        let listener = TcpListener::bind((HOST, port)).await;
        let listener = listener.with_context(|| format!("port {port} of {HOST}"))?;
        let connections = tokio::spawn(async move {
            // The end of this task ends the connections.
            let mut connections = JoinSet::new();
            while let Ok((caller, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(forward(caller, port));
            }
        });
        Ok(ExposedPort { connections })
    }
}

/// An error ends the connection, and the caller sees the end.
async fn forward(mut caller: TcpStream, port: u16) -> std::io::Result<()> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    copy_bidirectional(&mut caller, &mut server).await?;
    Ok(())
}

impl Drop for ExposedPort {
    fn drop(&mut self) {
        self.connections.abort();
    }
}
