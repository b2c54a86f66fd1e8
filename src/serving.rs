//! Runs servers as tasks of the process.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use certs::{Acceptor, Limits, Metrics, Reloader, Shutdown};
use hyper_util::service::TowerToHyperService;
use multicluster::Tasks;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::bind_address::BindAddress;
use crate::signals::Signals;

/// Interval at which the certificate files of the metrics server are read. No flag changes it.
pub(crate) const CERTIFICATE_POLL: Duration = Duration::from_secs(1);

/// The servers of the process.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    pub(crate) tasks: Tasks,
    /// Cancelled when the process begins to stop.
    pub(crate) draining: CancellationToken,
}

impl Servers {
    /// Starts a task that reloads the certificate files when they change.
    pub(crate) fn reload(&self, reloader: Reloader, poll: Duration) -> Acceptor {
        let acceptor = reloader.acceptor();
        let stop = self.tasks.stop();
        self.tasks.spawn("certificate reload", async move {
            reloader.run(poll, stop).await;
            Ok::<_, Infallible>(())
        });
        acceptor
    }

    /// Starts a server. The server runs until the process stops.
    pub(crate) fn serve(
        &self,
        what: &'static str,
        listener: TcpListener,
        acceptor: Acceptor,
        router: Router,
        limits: Limits,
        metrics: Metrics,
    ) {
        if let Ok(address) = listener.local_addr() {
            info!(%address, "{what} served");
        }
        let shutdown = Shutdown {
            draining: self.draining.clone(),
            stop: self.tasks.stop(),
        };
        self.tasks.spawn(what, async move {
            let service = TowerToHyperService::new(router);
            certs::serve(listener, acceptor, service, limits, metrics, shutdown).await;
            Ok::<_, Infallible>(())
        });
    }

    /// Stops the servers at `delay_over`, and waits until all requests are answered, or until the drain time is over.
    /// If a server ended unexpectedly, the servers stop at once, and the failure is returned.
    ///
    /// # Errors
    ///
    /// If another signal arrives before all requests are answered.
    pub(crate) async fn end(
        &self,
        delay_over: Instant,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<String>> {
        let stop = self.tasks.stop();
        let end = async {
            tokio::select! {
                () = sleep_until(delay_over) => {}
                () = stop.cancelled() => {}
            }
            stop.cancel();
            self.tasks.ended().await
        };
        tokio::select! {
            failure = end => Ok(failure),
            name = signals.next() => bail!("a second {name} came before all requests were answered"),
        }
    }

    /// Starts a server for operators, with default limits and without connection metrics.
    pub(crate) fn serve_operators(
        &self,
        what: &'static str,
        listener: TcpListener,
        acceptor: Acceptor,
        router: Router,
    ) {
        self.serve(
            what,
            listener,
            acceptor,
            router,
            Limits::default(),
            Metrics::default(),
        );
    }
}

/// Listens at an address. Returns `None` if the address is off. An empty host means all IPv6 and IPv4 addresses.
///
/// # Errors
///
/// If the process cannot listen at the address. The error contains the address.
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
