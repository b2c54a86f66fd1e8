//! Client certificates that are replaced while requests are sent.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::*;
use crate::connect::transport::Transport;

/// A self-signed certificate and its key, as PEM.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn identity(name: &str) -> Identity {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Identity { certificate, key }
}

impl Identity {
    fn write(&self, directory: &Path) {
        fs::write(directory.join("client.key"), self.key.serialize_pem()).unwrap();
        fs::write(directory.join("client.crt"), self.certificate.pem()).unwrap();
    }
}

/// Starts an API server that answers each request with the certificate of its client. Returns its port.
async fn start(server: &Identity, clients: &[&Identity]) -> u16 {
    let mut roots = RootCertStore::empty();
    for client in clients {
        roots.add(client.certificate.der().clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::try_from(server.key.serialize_der()).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![server.certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            let client = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            let service = service_fn(move |_| {
                let body = Full::new(Bytes::from(client.clone()));
                async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    port
}

/// Sends a request. Returns the certificate that the server saw.
async fn seen(transport: &Transport, port: u16) -> Vec<u8> {
    let url = format!("https://localhost:{port}/");
    let request = http::Request::get(url).body(Body::empty()).unwrap();
    let response = transport.clone().oneshot(request).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    body.unwrap().to_bytes().to_vec()
}

/// Returns a kubeconfig. `user` is the value of `users[0].user`.
fn kubeconfig(server: &Identity, port: u16, user: &str) -> String {
    let ca = STANDARD.encode(server.certificate.pem());
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://localhost:{port}', certificate-authority-data: {ca}}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    )
}

async fn transport(path: &Path) -> Transport {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = ClusterConfig::read(path, None).await.unwrap();
    let credentials = Credentials::with_interval(config, Duration::ZERO).unwrap();
    Transport::new(&Arc::new(credentials))
}

#[tokio::test]
async fn contents_that_were_accepted_stay_and_the_files_that_they_name_are_followed() {
    let directory = TempDir::new().unwrap();
    let (server, first, second) = (identity("server"), identity("first"), identity("second"));
    let port = start(&server, &[&first, &second]).await;
    first.write(directory.path());
    let path = directory.path().join("a.kubeconfig");
    let user = "{client-certificate: client.crt, client-key: client.key}";
    let contents = Arc::from(kubeconfig(&server, port, user));
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = ClusterConfig::of_contents(&path, &contents).unwrap();
    let credentials = Credentials::with_interval(config, Duration::ZERO).unwrap();
    let transport = Transport::new(&Arc::new(credentials));
    assert_eq!(
        seen(&transport, port).await,
        first.certificate.der().to_vec()
    );
    // The file itself has other contents, which are not accepted.
    let another = identity("another");
    fs::write(&path, kubeconfig(&another, port, "{}")).unwrap();
    second.write(directory.path());
    assert_eq!(
        seen(&transport, port).await,
        second.certificate.der().to_vec()
    );
}

#[tokio::test]
async fn a_client_certificate_is_read_again_when_its_file_changes() {
    let directory = TempDir::new().unwrap();
    let (server, first, second) = (identity("server"), identity("first"), identity("second"));
    let port = start(&server, &[&first, &second]).await;
    first.write(directory.path());
    let path = directory.path().join("kubeconfig");
    // The paths are relative to the kubeconfig.
    let user = "{client-certificate: client.crt, client-key: client.key}";
    fs::write(&path, kubeconfig(&server, port, user)).unwrap();
    let transport = transport(&path).await;
    assert_eq!(
        seen(&transport, port).await,
        first.certificate.der().to_vec()
    );

    // Only one of two files is replaced yet.
    fs::write(
        directory.path().join("client.key"),
        second.key.serialize_pem(),
    )
    .unwrap();
    assert_eq!(
        seen(&transport, port).await,
        first.certificate.der().to_vec()
    );
    second.write(directory.path());
    assert_eq!(
        seen(&transport, port).await,
        second.certificate.der().to_vec()
    );
}

#[tokio::test]
async fn an_embedded_client_certificate_is_read_again_when_the_kubeconfig_changes() {
    let directory = TempDir::new().unwrap();
    let (server, first, second) = (identity("server"), identity("first"), identity("second"));
    let port = start(&server, &[&first, &second]).await;
    let path = directory.path().join("kubeconfig");
    let write = |client: &Identity| {
        let certificate = STANDARD.encode(client.certificate.pem());
        let key = STANDARD.encode(client.key.serialize_pem());
        let user = format!("{{client-certificate-data: {certificate}, client-key-data: {key}}}");
        fs::write(&path, kubeconfig(&server, port, &user)).unwrap();
    };
    write(&first);
    let transport = transport(&path).await;
    assert_eq!(
        seen(&transport, port).await,
        first.certificate.der().to_vec()
    );
    fs::write(&path, "broken").unwrap();
    assert_eq!(
        seen(&transport, port).await,
        first.certificate.der().to_vec()
    );
    write(&second);
    assert_eq!(
        seen(&transport, port).await,
        second.certificate.der().to_vec()
    );
}

#[tokio::test]
async fn the_authority_of_an_api_server_is_read_again_when_its_file_changes() {
    let directory = TempDir::new().unwrap();
    let (client, former, next) = (identity("client"), identity("former"), identity("next"));
    let (former_port, next_port) = (
        start(&former, &[&client]).await,
        start(&next, &[&client]).await,
    );
    client.write(directory.path());
    let user = "{client-certificate: client.crt, client-key: client.key}";
    let (path, authority) = (
        directory.path().join("kubeconfig"),
        directory.path().join("ca.crt"),
    );
    let expected = client.certificate.der().to_vec();

    fs::write(&path, kubeconfig(&former, former_port, user)).unwrap();
    let embedded = transport(&path).await;
    assert_eq!(seen(&embedded, former_port).await, expected);
    fs::write(&path, kubeconfig(&next, former_port, user)).unwrap();
    assert_eq!(seen(&embedded, next_port).await, expected);

    let named = kubeconfig(&former, former_port, user);
    let data = STANDARD.encode(former.certificate.pem());
    let named = named.replace(&format!("-data: {data}"), ": ca.crt");
    fs::write(&path, named).unwrap();
    fs::write(&authority, former.certificate.pem()).unwrap();
    let named = transport(&path).await;
    assert_eq!(seen(&named, former_port).await, expected);
    fs::write(&authority, next.certificate.pem()).unwrap();
    assert_eq!(seen(&named, next_port).await, expected);
}

#[tokio::test]
async fn the_files_that_a_changed_kubeconfig_names_are_followed() {
    let directory = TempDir::new().unwrap();
    let server = identity("server");
    let clients = ["first", "second", "third"].map(identity);
    let [first, second, third] = clients.each_ref();
    let port = start(&server, &[first, second, third]).await;
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    first.write(directory.path());
    second.write(&other);
    let path = directory.path().join("kubeconfig");
    let user = "{client-certificate: client.crt, client-key: client.key}";
    fs::write(&path, kubeconfig(&server, port, user)).unwrap();
    let transport = transport(&path).await;
    let expected = |client: &Identity| client.certificate.der().to_vec();
    assert_eq!(seen(&transport, port).await, expected(first));
    let user = "{client-certificate: other/client.crt, client-key: other/client.key}";
    fs::write(&path, kubeconfig(&server, port, user)).unwrap();
    assert_eq!(seen(&transport, port).await, expected(second));
    third.write(&other);
    assert_eq!(seen(&transport, port).await, expected(third));
}

/// The client of the lease is made long after its kubeconfig was read.
#[tokio::test]
async fn an_authority_that_changes_before_the_client_is_made_is_read_again() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = TempDir::new().unwrap();
    let (client, former, next) = (identity("client"), identity("former"), identity("next"));
    let port = start(&next, &[&client]).await;
    client.write(directory.path());
    let user = "{client-certificate: client.crt, client-key: client.key}";
    let path = directory.path().join("kubeconfig");
    fs::write(&path, kubeconfig(&former, port, user)).unwrap();
    let config = ClusterConfig::read(&path, None).await.unwrap();
    fs::write(&path, kubeconfig(&next, port, user)).unwrap();
    let credentials = Credentials::with_interval(config, Duration::ZERO).unwrap();
    let transport = Transport::new(&Arc::new(credentials));
    assert_eq!(
        seen(&transport, port).await,
        client.certificate.der().to_vec()
    );
}
