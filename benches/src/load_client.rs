//! A client of one server on loopback, over HTTP/1.1 and TLS.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The path and the body of the requests, and their users.
#[derive(clap::Args)]
pub struct RequestArgs {
    /// CA of the server's certificate.
    #[arg(long)]
    ca: PathBuf,
    /// Path and query of each request.
    #[arg(long)]
    path: String,
    /// File with the body of each request.
    #[arg(long)]
    body: PathBuf,
    /// Name of the user in the body. With --users, other connections replace it by other names: the server limits what
    /// one user may do at a time.
    #[arg(long)]
    user: Option<String>,
    /// Number of users. Each connection has one of them.
    #[arg(long, default_value_t = 1, requires = "user")]
    users: usize,
    /// Number of connections.
    #[arg(long, default_value_t = 32)]
    pub connections: usize,
}

/// A client that sends the same request over and over.
#[derive(Clone)]
pub struct LoadClient {
    address: SocketAddr,
    tls: TlsConnector,
    path: Arc<str>,
    body: Bytes,
}

/// A connection of a [`LoadClient`].
type Connection = SendRequest<Full<Bytes>>;

impl LoadClient {
    /// Creates the client of the server at this port.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn new(args: &RequestArgs, port: u16) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&args.ca)?)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            tls: TlsConnector::from(Arc::new(config)),
            path: args.path.as_str().into(),
            body: fs::read(&args.body).context("--body")?.into(),
        })
    }

    /// Returns the client of a connection: its requests are those of the connection's user.
    #[must_use]
    pub fn of(&self, args: &RequestArgs, connection: usize) -> Self {
        let mut client = self.clone();
        let user = connection % args.users.max(1);
        if let (Some(name), 1..) = (&args.user, user) {
            let body = String::from_utf8_lossy(&self.body);
            let quoted = |name: &str| format!("\"{name}\"");
            let own = quoted(&format!("{name}-{user}"));
            client.body = body.replace(&quoted(name), &own).into();
        }
        client
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If the server does not accept it.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Sends one request and returns the body of its answer.
    ///
    /// # Errors
    ///
    /// If the connection ends, or the server answers with another code than 200.
    pub async fn call(&self, sender: &mut Connection) -> anyhow::Result<Bytes> {
        let request = Request::post(&*self.path)
            .header(header::HOST, "127.0.0.1")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(self.body.clone()))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        ensure!(status == StatusCode::OK, "the server answers {status}");
        Ok(response.into_body().collect().await?.to_bytes())
    }
}
