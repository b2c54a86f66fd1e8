//! Servers as tasks of the process: where they listen, and with which certificate.

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

/// How often the files of a certificate are looked at that no flag is for.
pub(crate) const CERTIFICATE_POLL: Duration = Duration::from_secs(1);

/// The servers of the process, and how they end.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    pub(crate) tasks: Tasks,
    /// Cancelled when the process begins to stop.
    pub(crate) draining: CancellationToken,
}

impl Servers {
    /// Follows the files of a certificate.
    pub(crate) fn reload(&self, reloader: Reloader, poll: Duration) -> Acceptor {
        let acceptor = reloader.acceptor();
        let stop = self.tasks.stop();
        self.tasks.spawn("certificate reload", async move {
            reloader.run(poll, stop).await;
            Ok::<_, Infallible>(())
        });
        acceptor
    }

    /// Serves until the process stops.
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

    /// Stops once `delay_over` is past and all requests are answered. Gives why a server ended, if one did by itself.
    ///
    /// # Errors
    ///
    /// When another signal comes before that.
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

    /// Serves what operators ask, with the usual bounds.
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
