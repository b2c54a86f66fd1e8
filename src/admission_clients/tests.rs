//! Callers of the webhook port with and without client certificates, over real connections.

use std::fs;
use std::path::Path;

use axum::routing::post;
use certs::{Files, Limits, Metrics, Reloader, Shutdown};
use hyper_util::service::TowerToHyperService;
use multicluster::clock;
use prometheus_client::encoding::text::encode;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use webhooks::admission::{MUTATE_WORKLOAD, VALIDATE_DEPLOYMENT, VALIDATE_WORKLOAD};

use super::*;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Issues a certificate with this common name. Servers are reached at `localhost`.
fn issue(authority: &Issuer, name: &str) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

struct TestServer {
    port: u16,
    authority: Issuer,
    clients: Issuer,
    registry: Registry,
    _directory: TempDir,
}

/// Starts a server whose admission accepts these names.
async fn start(names: &[&str]) -> TestServer {
    let directory = TempDir::new().unwrap();
    let (authority, clients) = (authority("servers"), authority("clients"));
    let (certificate, key) = issue(&authority, "webhook");
    let write = |name: &str, text: String| fs::write(directory.path().join(name), text).unwrap();
    write("tls.crt", certificate.pem());
    write("tls.key", key.serialize_pem());
    write("client-ca.crt", clients.pem());
    let files = Files {
        client_authorities: Some("client-ca.crt".to_owned()),
        ..Files::from(directory.path() as &Path)
    };
    let acceptor = Reloader::new(files, clock::now).acceptor();
    let mut registry = Registry::default();
    let refused = RefusedClients::register(&mut registry);
    let reached = || post(async || "reached");
    let router = Router::new()
        .route(MUTATE_WORKLOAD, reached())
        .route(VALIDATE_WORKLOAD, reached())
        .route(VALIDATE_DEPLOYMENT, reached())
        .route("/interpret", reached());
    let names = names.iter().map(|&name| name.to_owned()).collect();
    let service = TowerToHyperService::new(require(router, names, refused));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (limits, metrics) = (Limits::default(), Metrics::default());
    tokio::spawn(certs::serve(
        listener,
        acceptor,
        service,
        limits,
        metrics,
        Shutdown::default(),
    ));
    TestServer {
        port,
        authority,
        clients,
        registry,
        _directory: directory,
    }
}

impl TestServer {
    /// Sends a request with the certificate of this client. Returns the answer.
    async fn post(
        &self,
        client: Option<&(rcgen::Certificate, KeyPair)>,
        path: &str,
    ) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                let chain = vec![certificate.der().clone()];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

#[tokio::test]
async fn admission_needs_a_certificate_and_the_interpreter_does_not() {
    let server = start(&["kube-apiserver"]).await;
    let accepted = issue(&server.clients, "kube-apiserver");
    let other = issue(&server.clients, "someone");
    for path in [MUTATE_WORKLOAD, VALIDATE_WORKLOAD, VALIDATE_DEPLOYMENT] {
        let answer = server.post(Some(&accepted), path).await.unwrap();
        assert!(answer.ends_with("reached"), "{answer}");
        for (client, problem) in [
            (None, "admission needs a client certificate"),
            (
                Some(&other),
                "none of the names in webhookServer.clientSubjectNames",
            ),
        ] {
            let answer = server.post(client, path).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(answer.contains(problem), "{answer}");
        }
    }
    // Karmada presents no certificate.
    let answer = server.post(None, "/interpret").await.unwrap();
    assert!(answer.ends_with("reached"), "{answer}");
    // The client cannot prove that its certificate is of the CA.
    let stranger = issue(&authority("strangers"), "kube-apiserver");
    assert!(
        server
            .post(Some(&stranger), VALIDATE_WORKLOAD)
            .await
            .is_err()
    );
    let mut metrics = String::new();
    encode(&mut metrics, &server.registry).unwrap();
    for expected in ["{reason=\"no_certificate\"} 3", "{reason=\"wrong_name\"} 3"] {
        assert!(metrics.contains(expected), "{metrics}");
    }
}

#[tokio::test]
async fn without_names_every_certificate_of_the_ca_is_accepted() {
    let server = start(&[]).await;
    let client = issue(&server.clients, "someone");
    let answer = server.post(Some(&client), VALIDATE_WORKLOAD).await.unwrap();
    assert!(answer.ends_with("reached"), "{answer}");
    let answer = server.post(None, VALIDATE_WORKLOAD).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}
