//! Clients of the webhook server. One of them behaves like Karmada's client: it trusts one root, verifies the server
//! name, and keeps its connections open.

use std::convert::Infallible;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Writes a new self-signed certificate.
pub(crate) fn issue(directory: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(directory.join("tls.key"), signing_key.serialize_pem()).unwrap();
    fs::write(directory.join("tls.crt"), cert.pem()).unwrap();
    cert.der().clone()
}

/// Makes a TLS handshake with these ALPN protocols.
pub(crate) async fn tls(
    stream: TcpStream,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|&name| name.into()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Connects to a port of loopback, from an address of loopback.
pub(crate) async fn connect_from(from: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Number of trailers with short names and no values that fit the header limit of the server: 4 KiB, of which each
/// needs 32 bytes and its name.
const TRAILERS: usize = 110;

/// An HTTP/2 client. The server may send only `window` bytes of each answer.
pub(crate) struct Http2Client {
    requests: SendRequest<UnsyncBoxBody<Bytes, Infallible>>,
    connection: JoinHandle<()>,
}

impl Http2Client {
    /// Connects from an address of loopback.
    pub(crate) async fn connect(
        from: Ipv4Addr,
        port: u16,
        trusted: &CertificateDer<'static>,
        window: u32,
    ) -> io::Result<Self> {
        Self::over(connect_from(from, port).await?, trusted, window).await
    }

    /// Makes the handshakes of TLS and HTTP/2 on a connection.
    pub(crate) async fn over(
        stream: TcpStream,
        trusted: &CertificateDer<'static>,
        window: u32,
    ) -> io::Result<Self> {
        let stream = tls(stream, trusted, &["h2"]).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (requests, connection) = handshake.await.map_err(io::Error::other)?;
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            requests,
            connection,
        })
    }

    pub(crate) async fn post(&mut self, body: Vec<u8>) -> hyper::Result<Response<Incoming>> {
        let body = Full::new(body.into()).boxed_unsync();
        self.send("https://localhost/interpret", body).await
    }

    /// Sends a request to a path that is not served. After the answer, sends as many trailers as the server accepts.
    pub(crate) async fn post_with_trailers(&mut self) -> hyper::Result<Response<Incoming>> {
        let trailers = async {
            sleep(Duration::from_millis(200)).await;
            let names = (0..TRAILERS).map(|number| HeaderName::from_str(&format!("t{number}")));
            let empty = HeaderValue::from_static("");
            let fields = names.map(|name| (name.unwrap(), empty.clone()));
            Some(Ok(fields.collect::<HeaderMap>()))
        };
        let body = Empty::new().with_trailers(trailers).boxed_unsync();
        self.send("https://localhost/absent", body).await
    }

    async fn send(
        &mut self,
        url: &str,
        body: UnsyncBoxBody<Bytes, Infallible>,
    ) -> hyper::Result<Response<Incoming>> {
        self.requests.ready().await?;
        let request = Request::post(url).body(body);
        self.requests.send_request(request.unwrap()).await
    }

    /// Waits until the connection ends.
    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.connection).await;
    }
}

impl Drop for Http2Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A connection to the webhook server.
pub(crate) struct TlsConnection {
    stream: TlsStream<TcpStream>,
    /// Whether the last answer had the header `Connection: close`.
    pub(crate) closes: bool,
}

impl TlsConnection {
    pub(crate) async fn open(port: u16, trusted: &CertificateDer<'static>) -> io::Result<Self> {
        Self::over(TcpStream::connect(("localhost", port)).await?, trusted).await
    }

    /// Makes the TLS handshake on a connection.
    pub(crate) async fn over(
        stream: TcpStream,
        trusted: &CertificateDer<'static>,
    ) -> io::Result<Self> {
        Ok(Self {
            stream: tls(stream, trusted, &[]).await?,
            closes: false,
        })
    }

    /// Sends raw bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Reads until the server closes the connection.
    pub(crate) async fn read_to_end(&mut self) -> io::Result<String> {
        let mut received = String::new();
        self.stream.read_to_string(&mut received).await?;
        Ok(received)
    }

    /// Waits until the server closes the connection.
    pub(crate) async fn closed(&mut self) {
        let mut chunk = [0; 4096];
        while let Ok(1..) = self.stream.read(&mut chunk).await {}
    }

    /// Sends a request. Returns the status and the body of the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> io::Result<(u16, String)> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
        // A server that refuses a request early stops reading. So the client writes and reads concurrently.
        let send = async {
            let _ = writer.write_all(head.as_bytes()).await;
            let _ = writer.write_all(body).await;
            let _ = writer.flush().await;
            std::future::pending::<()>().await;
        };
        let mut response = Vec::new();
        let receive = async {
            let mut chunk = [0; 4096];
            while !is_complete(&response) {
                match reader.read(&mut chunk).await? {
                    0 => return Err(io::Error::from(ErrorKind::UnexpectedEof)),
                    read => response.extend_from_slice(&chunk[..read]),
                }
            }
            Ok(())
        };
        tokio::select! { () = send => {}, received = receive => received? }
        let response = String::from_utf8(response).unwrap();
        self.closes = response
            .to_lowercase()
            .contains("\r\nconnection: close\r\n");
        Ok(parse(&response))
    }
}

/// Returns whether the complete body has arrived. `Content-Length` gives the length of the body.
fn is_complete(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&response[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().unwrap();
    response.len() >= end + 4 + length
}

/// Sends a GET request over HTTP. Returns the status and the body of the answer.
pub(crate) async fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("localhost", port)).await?;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(parse(&response))
}

fn parse(response: &str) -> (u16, String) {
    let (head, body) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no response: {response:?}"));
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

pub(crate) fn review(operation: &str, kind: &str) -> Vec<u8> {
    let kind = json!({"group": "compute.datumapis.com", "version": "v1alpha", "kind": kind});
    let object = json!({"spec": {"replicas": 3}});
    json!({"request": {"uid": "u1", "kind": kind, "operation": operation, "object": object}})
        .to_string()
        .into_bytes()
}
