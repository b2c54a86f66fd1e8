//! Clients on the host of servers in Pods.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use harness::wait::SteadyBackoff;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Gets the page of a server whose certificate is for `name`. Returns the page and the certificate of the server.
pub(crate) async fn get(
    address: &str,
    name: &str,
    authority: &str,
) -> anyhow::Result<(String, Vec<u8>)> {
    let mut tls = connect(address, name, config(authority.as_bytes())?).await?;
    let certificate = leaf(&tls)?;
    tls.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await?;
    let (_, page) = answer.split_once("\r\n\r\n").context("no page")?;
    Ok((page.to_owned(), certificate))
}

/// Returns the certificate of a server whose certificate is for `name`.
pub(crate) async fn certificate(
    address: &str,
    name: &str,
    authority: &str,
) -> anyhow::Result<Vec<u8>> {
    leaf(&connect(address, name, config(authority.as_bytes())?).await?)
}

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The CAs that a caller trusts: always those of a webhook registration.
#[derive(Clone)]
pub(crate) struct TrustedBundle(watch::Receiver<Arc<ClientConfig>>);

impl TrustedBundle {
    /// Follows the bundle of a registration, as API servers do.
    pub(crate) async fn follow(
        (registrations, name): (Api<DynamicObject>, &'static str),
    ) -> anyhow::Result<Self> {
        let first = bundle(&registrations.get(name).await?)?;
        let (sender, receiver) = watch::channel(config(&first)?);
        tokio::spawn(async move {
            let mut versions = watch_object(registrations, name)
                .backoff(SteadyBackoff)
                .boxed();
            while let Some(version) = versions.next().await {
                // The watcher restarts a broken watch.
                let Ok(Some(object)) = version else { continue };
                let trusted = bundle(&object).and_then(|bundle| config(&bundle));
                let sent = trusted.is_ok_and(|trusted| sender.send(trusted).is_err());
                if sent {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }
}

fn bundle(registration: &DynamicObject) -> anyhow::Result<Vec<u8>> {
    let bundle = registration.data["webhooks"][0]["clientConfig"]["caBundle"].as_str();
    Ok(STANDARD.decode(bundle.context("no caBundle")?)?)
}

/// Calls a webhook. Each call has its own connection.
#[derive(Clone)]
pub(crate) struct WebhookCaller {
    /// Address and port.
    pub(crate) address: String,
    /// The name in the certificate.
    pub(crate) server: String,
    pub(crate) path: String,
    pub(crate) trusted: TrustedBundle,
}

impl WebhookCaller {
    /// Posts a request, and returns the answer. It must have the UID of the request.
    pub(crate) async fn post(&self, review: &Value) -> anyhow::Result<Value> {
        let (status, body) = self.send(Bytes::from(review.to_string())).await?;
        let text = String::from_utf8_lossy(&body);
        ensure!(status == StatusCode::OK, "{status}: {text}");
        let answer: Value = serde_json::from_str(&text)?;
        let is_same = answer["response"]["uid"] == review["request"]["uid"];
        ensure!(is_same, "{answer}");
        Ok(answer)
    }

    /// Posts a body, and returns the status and the body of the answer.
    pub(crate) async fn send(&self, body: Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = http1::handshake(stream).await?;
        // The task ends with the connection.
        tokio::spawn(connection);
        let request = Request::post(&self.path)
            .header(header::HOST, &self.server)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Returns the certificate of the server.
    pub(crate) async fn certificate(&self) -> anyhow::Result<Vec<u8>> {
        leaf(&self.connect().await?)
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.trusted.0.borrow());
        connect(&self.address, &self.server, config).await
    }
}

async fn connect(
    address: &str,
    name: &str,
    config: Arc<ClientConfig>,
) -> anyhow::Result<TlsStream<TcpStream>> {
    // The packets of a connection that begins before kube-proxy knows the Service never reach a Pod.
    let tcp = timeout(CONNECT, TcpStream::connect(address)).await??;
    let name = ServerName::try_from(name.to_owned())?;
    Ok(TlsConnector::from(config).connect(name, tcp).await?)
}

fn leaf(tls: &TlsStream<TcpStream>) -> anyhow::Result<Vec<u8>> {
    let (_, session) = tls.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default();
    Ok(certificates.first().context("no certificate")?.to_vec())
}

/// Returns a configuration that trusts only these CAs in PEM.
fn config(authorities: &[u8]) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
