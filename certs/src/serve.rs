//! The accept loop: connections with limits, and their drain.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::Certificates;

/// How connections begin.
#[derive(Clone)]
pub enum Acceptor {
    /// Without TLS.
    Plain,
    /// With the configuration that is in service when the connection begins. Without one it is closed.
    Tls(Arc<ArcSwapOption<ServerConfig>>),
}

impl From<Certificates> for Acceptor {
    /// Serves always with these.
    fn from(certificates: Certificates) -> Self {
        Self::Tls(Arc::new(ArcSwapOption::from(Some(certificates.config))))
    }
}

/// Bounds on what a client can take up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait in the backlog of the socket.
    pub connections: usize,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Time for the header of an HTTP/1.1 request. It is also how long an idle connection is kept: callers of webhooks
    /// keep theirs for 90 s (karmada.md 1.9), so it is longer.
    pub header: Duration,
    /// Interval of HTTP/2 pings, by which dead connections are found.
    pub ping: Duration,
    /// Age at which a connection is ended after its current requests, so that load spreads over replicas and an old
    /// certificate does not live on.
    pub age: Duration,
    /// Time for requests in flight when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(5),
            header: Duration::from_mins(2),
            ping: Duration::from_secs(30),
            age: Duration::from_mins(15),
            drain: Duration::from_secs(20),
        }
    }
}

/// Waits after an error of `accept` that no single connection caused, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, then lets requests in flight finish.
pub async fn serve<S, B>(
    listener: TcpListener,
    acceptor: Acceptor,
    service: S,
    limits: Limits,
    stop: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    let drain_over = CancellationToken::new();
    while let Some(Some((stream, slot))) = stop.run_until_cancelled(accept(&listener, &slots)).await
    {
        let (acceptor, service, stop) = (acceptor.clone(), service.clone(), stop.clone());
        let connection = async move {
            // Held for as long as the connection lives.
            let _slot = slot;
            match acceptor {
                Acceptor::Plain => serve_connection(stream, service, limits, stop).await,
                Acceptor::Tls(config) => {
                    let Some(config) = config.load_full() else {
                        return debug!("connection refused: no certificate yet");
                    };
                    match timeout(limits.handshake, TlsAcceptor::from(config).accept(stream)).await
                    {
                        Ok(Ok(stream)) => serve_connection(stream, service, limits, stop).await,
                        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
                        Err(_) => debug!("TLS handshake timed out"),
                    }
                }
            }
        };
        let drain_over = drain_over.clone();
        connections.spawn(async move { drain_over.run_until_cancelled(connection).await });
    }
    drop(listener);
    connections.close();
    if timeout(limits.drain, connections.wait()).await.is_err() {
        warn!(
            connections = connections.len(),
            "requests in flight are cut off: the time to drain is over"
        );
        drain_over.cancel();
        connections.wait().await;
    }
}

/// The next connection and its slot. `None` only when there are no slots any more, which does not happen.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "TCP_NODELAY not set");
                }
                return Some((stream, slot));
            }
            Err(error) => {
                warn!(%error, "connection not accepted");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_connection<I, S, B>(stream: I, service: S, limits: Limits, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping)
        .max_concurrent_streams(250)
        .max_header_list_size(16 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = async { tokio::select! { () = stop.cancelled() => {}, () = sleep(limits.age) => {} } } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        debug!(%error, "connection ended");
    }
}
