//! The accept loop. It limits the number of connections. At the end, it waits for the requests in flight.

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{Request, Response, Version};
use hyper::body::Body;
use hyper::service::Service;
use rustls::{AlertDescription, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, error, warn};

use crate::bodies::RequestBody;
use crate::client_names::{ClientNames, Identified};
use crate::connection::{self, Shutdown};
use crate::limits::Limits;
use crate::load::Certificates;
use crate::metrics::Metrics;
use crate::peers::Peer;
use crate::slots::{Slot, Slots};

/// The way in which connections are accepted: without or with TLS.
#[derive(Clone)]
pub enum Acceptor {
    /// Without TLS.
    Plain,
    /// With the TLS configuration that is in service when the connection begins. If there is no configuration, the
    /// connection is closed.
    Tls(Arc<ArcSwapOption<ServerConfig>>),
}

impl From<Certificates> for Acceptor {
    /// Returns an acceptor that always serves these certificates.
    fn from(certificates: Certificates) -> Self {
        Self::Tls(Arc::new(ArcSwapOption::from(Some(certificates.config))))
    }
}

/// Wait after an error of `accept` that is not the error of one connection, for example too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Maximum amount of data of an answer that TLS holds for one connection, in bytes. The size is that of one TLS record.
const TLS_BUFFER: usize = 16 << 10;

/// Accepts connections until `shutdown.stop`. Each request has the source address of its client as an extension of type
/// `IpAddr`. After the stop, waits for requests in flight, but at most for `limits.drain`.
pub async fn serve<S, B>(
    listener: TcpListener,
    acceptor: Acceptor,
    service: S,
    limits: Limits,
    metrics: Metrics,
    shutdown: Shutdown,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slots = Slots::new(limits, metrics.clone());
    let mut connections = JoinSet::new();
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = shutdown.stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                report(ended);
                continue;
            }
            accepted = accept(&listener) => accepted,
        };
        let Some(slot) = slots.open(address.ip()).map(Arc::new) else {
            debug!(%address, "connection refused: every connection is busy");
            continue;
        };
        let (acceptor, service) = (acceptor.clone(), service.clone());
        let (metrics, shutdown) = (metrics.clone(), shutdown.clone());
        connections.spawn(async move {
            let _open = metrics.opened();
            let connection = begin(
                stream,
                acceptor,
                service,
                Arc::clone(&slot),
                limits,
                &metrics,
                shutdown,
            );
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        debug!(%error, "connection ended");
                    }
                }
                () = slot.activity.evicted.notified() => {
                    debug!("connection closed: another one got its slot");
                }
            }
        });
    }
    drop(listener);
    let drain = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if timeout(limits.drain, drain).await.is_err() {
        warn!(
            connections = connections.len(),
            "the drain time is over: connections with requests in flight are closed"
        );
        connections.shutdown().await;
    }
}

/// Logs a panic of the connection task. Handlers have already answered their own panics.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "a connection panicked");
    }
}

/// Serves a connection from handshake to end. The futures are boxed, so the memory of the handshake is freed after the
/// handshake. This saves memory because there can be thousands of connections.
async fn begin<S, B>(
    stream: TcpStream,
    acceptor: Acceptor,
    service: S,
    slot: Arc<Slot>,
    limits: Limits,
    metrics: &Metrics,
    shutdown: Shutdown,
) -> hyper::Result<()>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Acceptor::Tls(config) = acceptor else {
        let served = connection::serve(stream, Version::HTTP_11, service, slot, limits, shutdown);
        return Box::pin(served).await;
    };
    let peer = slot.activity.peer();
    let Some(stream) = Box::pin(handshake(stream, &config, peer, limits, metrics)).await else {
        return Ok(());
    };
    let version = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Version::HTTP_2,
        _ => Version::HTTP_11,
    };
    let client = ClientNames::of(stream.get_ref().1.peer_certificates());
    let service = Identified { service, client };
    let stream = Box::new(stream);
    Box::pin(connection::serve(
        stream, version, service, slot, limits, shutdown,
    ))
    .await
}

async fn handshake(
    stream: TcpStream,
    config: &ArcSwapOption<ServerConfig>,
    peer: &Peer,
    limits: Limits,
    metrics: &Metrics,
) -> Option<TlsStream<TcpStream>> {
    let Some(config) = config.load_full() else {
        metrics.tls_error("no_certificate");
        debug!("connection refused: no certificate yet");
        return None;
    };
    match timeout(limits.handshake, accept_tls(stream, config, peer)).await {
        Ok(Ok(Some(mut stream))) => {
            stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
            Some(stream)
        }
        Ok(Ok(None)) => {
            metrics.tls_error("displaced");
            debug!("TLS handshake was slow and gave way to others");
            None
        }
        Ok(Err(error)) => {
            metrics.tls_error(tls_error(&error));
            debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            metrics.tls_error("timeout");
            debug!("TLS handshake timed out");
            None
        }
    }
}

/// Makes a TLS handshake when it has its turn. Returns `None` if the handshake is slow and others wait for a turn.
async fn accept_tls(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    peer: &Peer,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    let first = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
    let (of_source, of_all) = (&peer.handshakes, &peer.all.handshakes);
    let _turns = (
        of_source.take().await.map_err(io::Error::other)?,
        of_all.take().await.map_err(io::Error::other)?,
    );
    tokio::select! {
        accepted = first.into_stream(config) => accepted.map(Some),
        () = of_source.displaced() => Ok(None),
        () = of_all.displaced() => Ok(None),
    }
}

/// Returns the metric label for a failed handshake.
fn tls_error(error: &io::Error) -> &'static str {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown,
        )) => "certificate_not_trusted",
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateExpired)) => {
            "certificate_expired"
        }
        Some(rustls::Error::AlertReceived(_)) => "alert",
        Some(rustls::Error::PeerIncompatible(_)) => "incompatible",
        Some(rustls::Error::InvalidMessage(_)) => "not_tls",
        Some(_) => "protocol",
        None => "closed",
    }
}

/// Returns the next connection, and the address of its client.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "TCP_NODELAY not set");
                }
                return (stream, address);
            }
            // The client closed the connection while it was in the backlog.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
                ) => {}
            Err(error) => {
                warn!(%error, "connection not accepted");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}
