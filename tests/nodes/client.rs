//! A client of the probe, on the host.

use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Gets the page of a server whose certificate is for `name`. Returns the page and the certificate of the server.
pub(crate) async fn get(
    address: &str,
    name: &str,
    authority: &str,
) -> anyhow::Result<(String, Vec<u8>)> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from(name.to_owned())?;
    let mut tls = connector.connect(name, tcp).await?;
    let (_, session) = tls.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().context("no certificate")?.to_vec();
    tls.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    tls.read_to_string(&mut answer).await?;
    let (_, page) = answer.split_once("\r\n\r\n").context("no page")?;
    Ok((page.to_owned(), certificate))
}
