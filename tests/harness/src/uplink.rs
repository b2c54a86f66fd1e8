//! A TCP connection to a server that can lose all packets, as a link does whose line is cut.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// A relay on loopback in front of a server. When the value is dropped, its connections close.
pub struct Uplink {
    port: u16,
    is_cut: Arc<watch::Sender<bool>>,
    task: AbortHandle,
}

/// A cut of an uplink. The cut ends when this value is dropped.
#[derive(Debug)]
pub struct UplinkCut(Arc<watch::Sender<bool>>);

impl Uplink {
    /// Starts a relay in front of the server at this port.
    pub(crate) async fn start(server: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr().context("no address")?.port();
        let is_cut = Arc::new(watch::Sender::new(false));
        let cut = is_cut.subscribe();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((client, _)) = listener.accept() => {
                        connections.spawn(relay(client, server, cut.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        let task = task.abort_handle();
        Ok(Self { port, is_cut, task })
    }

    /// Returns the port of the relay.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Lets nothing pass in either direction, and opens no connections to the server, until the returned value is
    /// dropped. Neither side learns of the cut.
    pub fn cut(&self) -> UplinkCut {
        self.is_cut.send_replace(true);
        UplinkCut(Arc::clone(&self.is_cut))
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for UplinkCut {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Relays one connection.
async fn relay(client: TcpStream, server: u16, mut cut: watch::Receiver<bool>) {
    uncut(&mut cut).await;
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pass(from_client, to_server, cut.clone()),
        pass(from_server, to_client, cut),
    );
}

/// Passes bytes on, and the end of the connection, while the link is not cut.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        uncut(&mut cut).await;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn uncut(cut: &mut watch::Receiver<bool>) {
    // An error means that the relay ends.
    let _ = cut.wait_for(|is_cut| !is_cut).await;
}
