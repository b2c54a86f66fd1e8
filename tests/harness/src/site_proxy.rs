//! The proxies of sites, which close connections: one that ends TLS and speaks HTTP/1.1 only, and one for CONNECT.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use http::{Method, Request, Response, Uri};
use hyper::body::Incoming;
use kube::Client;
use multicluster::connect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use crate::forward::{self, Credentials, forward};
use crate::pki::Pki;
use crate::plane::Plane;
use crate::proxy::RequestInfo;
use crate::serve::{BoxedBody, HttpVersions, HttpsServer};
use crate::status_error::StatusError;

/// When a proxy closes a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Time without a byte in either direction.
    pub idle: Duration,
    /// Age of the connection.
    pub age: Duration,
}

/// A proxy in front of an API server, below a path. It ends TLS, so it has the certificate of another server, and client
/// certificates end there.
pub struct ReverseProxy {
    relay: Relay,
    prefix: &'static str,
    requests: Arc<Mutex<Vec<RequestInfo>>>,
    _server: HttpsServer,
}

impl ReverseProxy {
    pub(crate) async fn start(
        pki: &Pki,
        plane: &Plane,
        prefix: &'static str,
        limits: ConnectionLimits,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let anonymous = directory.join(format!("{}-anonymous.kubeconfig", plane.name()));
        let server = format!("https://127.0.0.1:{}", plane.port());
        std::fs::write(&anonymous, pki.kubeconfig_of(&server, "{}"))?;
        let config = connect::kubeconfig(&anonymous, None).await?;
        let upstream = forward::client(config.config)?;
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let seen = Arc::clone(&requests);
        let server = HttpsServer::start_with(pki, HttpVersions::Http1, move |request| {
            let (upstream, seen) = (upstream.clone(), Arc::clone(&seen));
            async move { Some(pass_on(&upstream, prefix, &seen, request).await) }
        })
        .await?;
        let relay = Relay::start(Target::Port(server.port()), limits).await?;
        Ok(Self {
            relay,
            prefix,
            requests,
            _server: server,
        })
    }

    /// Returns the address of the API server behind the proxy.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}{}", self.relay.port, self.prefix)
    }

    /// Returns how many connections the proxy has closed.
    pub fn closed(&self) -> usize {
        self.relay.closed()
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<RequestInfo> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Passes a request on with the credentials of the caller.
async fn pass_on(
    upstream: &Client,
    prefix: &str,
    seen: &Mutex<Vec<RequestInfo>>,
    request: Request<Incoming>,
) -> Response<BoxedBody> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |it| it.as_str());
    let stripped = path.strip_prefix(prefix).filter(|it| it.starts_with('/'));
    let Some(uri) = stripped.and_then(|it| it.parse::<Uri>().ok()) else {
        let error = StatusError::new(http::StatusCode::NOT_FOUND, "NotFound", "another path");
        return error.response();
    };
    parts.uri = uri;
    let info = RequestInfo::of_parts(&parts);
    seen.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(info);
    match forward(upstream, parts, body, Credentials::OfCaller).await {
        Ok(answer) => answer.map(http_body_util::BodyExt::boxed_unsync),
        Err(error) => error.response(),
    }
}

/// A proxy for the method CONNECT.
pub struct ConnectProxy {
    relay: Relay,
}

impl ConnectProxy {
    /// Starts a proxy.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start(limits: ConnectionLimits) -> anyhow::Result<Self> {
        let relay = Relay::start(Target::Asked, limits).await?;
        Ok(Self { relay })
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.relay.port)
    }

    /// Returns how many connections the proxy has opened.
    pub fn opened(&self) -> usize {
        self.relay.opened.load(Ordering::Relaxed)
    }

    /// Returns how many connections the proxy has closed.
    pub fn closed(&self) -> usize {
        self.relay.closed()
    }
}

/// Where a relay leads.
#[derive(Clone, Copy)]
enum Target {
    /// To this port.
    Port(u16),
    /// To the authority of the CONNECT that the client sends.
    Asked,
}

/// Relays connections, and closes them by the limits. It ends when the value is dropped.
struct Relay {
    port: u16,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Relay {
    async fn start(target: Target, limits: ConnectionLimits) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let [opened, closed] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let counters = (Arc::clone(&opened), Arc::clone(&closed));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((client, _)) = listener.accept() => {
                        let (opened, closed) = (Arc::clone(&counters.0), Arc::clone(&counters.1));
                        connections.spawn(async move {
                            let Ok((client, server)) = open(client, target).await else {
                                return;
                            };
                            opened.fetch_add(1, Ordering::Relaxed);
                            if relay(client, server, limits).await {
                                closed.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        let task = task.abort_handle();
        Ok(Self {
            port,
            opened,
            closed,
            task,
        })
    }

    fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects to the target.
async fn open(mut client: TcpStream, target: Target) -> anyhow::Result<(TcpStream, TcpStream)> {
    let server = match target {
        Target::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?,
        Target::Asked => {
            let authority = asked(&mut client).await?;
            let server = TcpStream::connect(authority).await?;
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            server
        }
    };
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    Ok((client, server))
}

/// Reads the head of a CONNECT, and returns its authority.
async fn asked(client: &mut TcpStream) -> anyhow::Result<String> {
    const HEAD_MAX: usize = 8 << 10;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_MAX, "the head is too long");
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let mut words = head.split(' ');
    let method = words.next().unwrap_or_default();
    ensure!(method == Method::CONNECT.as_str(), "{method} is no CONNECT");
    words.next().map(str::to_owned).context("no authority")
}

/// Relays a connection. Returns whether a limit has closed it.
async fn relay(client: TcpStream, server: TcpStream, limits: ConnectionLimits) -> bool {
    let last = watch::Sender::new(Instant::now());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pass(from_client, to_server, &last) => false,
        () = pass(from_server, to_client, &last) => false,
        () = until_idle(&last, limits.idle) => true,
        () = sleep(limits.age) => true,
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, last: &watch::Sender<Instant>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() || to.write_all(bytes).await.is_err() {
            return;
        }
        last.send_replace(Instant::now());
    }
}

async fn until_idle(last: &watch::Sender<Instant>, idle: Duration) {
    loop {
        let end = *last.borrow() + idle;
        if end <= Instant::now() {
            return;
        }
        sleep_until(end).await;
    }
}
