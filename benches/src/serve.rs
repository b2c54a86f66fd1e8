//! A minimal TLS server.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Maximum number of concurrent streams in one HTTP/2 connection. This is the default of a kube-apiserver.
const STREAMS: u32 = 100;

/// Serves HTTP/1.1 and HTTP/2 on loopback, until the process ends. `cert_dir` contains the certificate.
///
/// # Errors
///
/// When the certificate cannot be served, or the port is not free.
pub async fn serve(port: u16, cert_dir: &Path, router: Router) -> anyhow::Result<()> {
    let chain =
        CertificateDer::pem_file_iter(cert_dir.join("tls.crt"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(cert_dir.join("tls.key"))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http2().max_concurrent_streams(STREAMS);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, http, router) = (acceptor.clone(), http.clone(), router.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            let stream = acceptor.accept(stream).await?;
            let service = TowerToHyperService::new(router);
            // Errors of a connection are ignored, because the client closes the connection.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            anyhow::Ok(())
        });
    }
}
