//! HTTPS servers inside the harness process.

use std::fs::File;
use std::io::{self, BufReader};
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::pki::Pki;

/// The body of a response.
pub(crate) type BoxedBody = UnsyncBoxBody<Bytes, kube::Error>;

/// The versions of HTTP that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersions {
    /// HTTP/1.1 and HTTP/2.
    All,
    /// HTTP/1.1 only.
    Http1,
}

/// A server on loopback. When the value is dropped, its connections close.
pub(crate) struct HttpsServer {
    port: u16,
    task: AbortHandle,
}

impl HttpsServer {
    /// Serves at a free port. `handle` answers each request. If `handle` returns `None`, the connection is closed
    /// without an answer.
    pub(crate) async fn start<F>(
        pki: &Pki,
        handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = Option<Response<BoxedBody>>> + Send + 'static,
    {
        Self::start_with(pki, HttpVersions::All, handle).await
    }

    /// Serves as [`Self::start`] does, with these versions of HTTP.
    pub(crate) async fn start_with<F>(
        pki: &Pki,
        versions: HttpVersions,
        handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = Option<Response<BoxedBody>>> + Send + 'static,
    {
        let acceptor = TlsAcceptor::from(Arc::new(tls(pki, versions)?));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    // If a connection could not be accepted, the client connects again.
                    Ok((stream, _)) = listener.accept() => {
                        connections.spawn(serve(stream, acceptor.clone(), handle.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        let task = task.abort_handle();
        Ok(Self { port, task })
    }

    /// Returns the port of the server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the base URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<F>(stream: TcpStream, acceptor: TlsAcceptor, handle: impl Fn(Request<Incoming>) -> F)
where
    F: Future<Output = Option<Response<BoxedBody>>> + Send + 'static,
{
    // Small packets are sent without delay, as API servers do. Watch events are small.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(|request| {
        let answer = handle(request);
        async { answer.await.ok_or_else(|| io::Error::other("no answer")) }
    });
    // Errors are ignored, because clients handle broken connections.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn tls(pki: &Pki, versions: HttpVersions) -> anyhow::Result<ServerConfig> {
    let open = |name: &str| {
        let path = pki.file(name);
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        anyhow::Ok(BufReader::new(file))
    };
    let chain = CertificateDer::pem_reader_iter(open("tls.crt")?).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_reader(open("tls.key")?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = match versions {
        HttpVersions::All => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersions::Http1 => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}
