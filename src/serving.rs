//! Servers as tasks of the process: where they listen, and with which certificate.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use certs::{Acceptor, Limits, Reloader};
use hyper_util::service::TowerToHyperService;
use planes::Tasks;
use tokio::net::TcpListener;
use tracing::info;

use crate::args::BindAddress;

/// How often certificate files are looked at.
const CERTIFICATE_POLL: Duration = Duration::from_secs(1);

pub(crate) fn start_reloading(servers: &Tasks, reloader: Reloader) -> Acceptor {
    let acceptor = reloader.acceptor();
    let stop = servers.stop();
    servers.spawn("certificate reload", async move {
        reloader.run(CERTIFICATE_POLL, stop).await;
        Ok::<_, Infallible>(())
    });
    acceptor
}

pub(crate) fn serve(
    servers: &Tasks,
    what: &'static str,
    listener: TcpListener,
    acceptor: Acceptor,
    router: Router,
) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "{what} served");
    }
    let stop = servers.stop();
    servers.spawn(what, async move {
        certs::serve(
            listener,
            acceptor,
            TowerToHyperService::new(router),
            Limits::default(),
            stop,
        )
        .await;
        Ok::<_, Infallible>(())
    });
}

/// Listens at an address, if it is not off. An empty host means all addresses, of both families where there are two.
pub(crate) async fn listen(address: &BindAddress) -> anyhow::Result<Option<TcpListener>> {
    let BindAddress::At { host, port } = address else {
        return Ok(None);
    };
    let listener = if host.is_empty() {
        match TcpListener::bind(("::", *port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await,
        }
    } else {
        TcpListener::bind((host.as_str(), *port)).await
    };
    listener
        .map(Some)
        .with_context(|| format!("cannot listen at {host}:{port}"))
}
