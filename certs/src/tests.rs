//! Connections that are served with certificates from files.

mod authorities;
mod checks;
mod crowds;
mod csi;
mod ends;
mod files;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use checks::TestAuthority;

use crate::{
    Acceptor, Authorities, CertificateError, Certificates, Files, Limits, Metrics, Reloader,
    RequestBody, Shutdown, serve,
};

fn clock() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

/// Makes a self-signed certificate for `localhost`. Returns the certificate and the key as PEM, and the certificate as
/// DER.
fn issue() -> (String, String, CertificateDer<'static>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (
        certificate.pem(),
        key.serialize_pem(),
        certificate.der().clone(),
    )
}

fn write(directory: &Path, certificate: &str, key: &str) {
    fs::write(directory.join("tls.crt"), certificate).unwrap();
    fs::write(directory.join("tls.key"), key).unwrap();
}

/// Writes a generation of files as kubelet does: makes a new directory, then replaces the link `..data` by a rename.
fn swap(volume: &Path, generation: &str, certificate: &str, key: &str, authority: Option<&str>) {
    let directory = volume.join(generation);
    fs::create_dir(&directory).unwrap();
    write(&directory, certificate, key);
    if let Some(authority) = authority {
        fs::write(directory.join("ca.crt"), authority).unwrap();
    }
    symlink(generation, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        if fs::symlink_metadata(volume.join(file)).is_err() {
            symlink(Path::new("..data").join(file), volume.join(file)).unwrap();
        }
    }
}

struct TestServer {
    names: tokio::sync::watch::Sender<BTreeSet<String>>,
    address: std::net::SocketAddr,
    state: tokio::sync::watch::Receiver<crate::CertificateState>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

async fn start(directory: &Path) -> TestServer {
    start_with(directory, Limits::default()).await
}

async fn start_with(directory: &Path, limits: Limits) -> TestServer {
    let mut reloader = Reloader::new(Files::from(directory), clock);
    let (names, expected) = tokio::sync::watch::channel(BTreeSet::new());
    reloader.expect_names(expected);
    let (acceptor, state) = (reloader.acceptor(), reloader.state());
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(|_: Request<RequestBody>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let served = tokio::spawn(serve(
        listener,
        acceptor,
        service,
        limits,
        Metrics::default(),
        Shutdown {
            stop: stop.clone(),
            ..Shutdown::default()
        },
    ));
    TestServer {
        names,
        address,
        state,
        stop,
        served,
    }
}

/// Connects like Karmada: the client trusts only the root `trusted`, and verifies the server name.
async fn connect(
    server: &TestServer,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_for(server, trusted, "http/1.1").await
}

/// Connects with this ALPN protocol.
async fn connect_for(
    server: &TestServer,
    trusted: &CertificateDer<'static>,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = client_config(trusted, protocol);
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

fn client_config(trusted: &CertificateDer<'static>, protocol: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    config
}

async fn get(stream: &mut TlsStream<TcpStream>) -> String {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"hello") {
        assert_ne!(
            stream.read_buf(&mut received).await.unwrap(),
            0,
            "{}",
            String::from_utf8_lossy(&received)
        );
    }
    String::from_utf8(received).unwrap()
}

#[tokio::test]
async fn new_connections_use_a_swapped_directory_and_old_ones_continue() {
    let volume = TempDir::new().unwrap();
    let (first, second) = (issue(), issue());
    swap(volume.path(), "..1", &first.0, &first.1, None);
    let mut server = start(volume.path()).await;
    let mut old = connect(&server, &first.2).await.unwrap();
    get(&mut old).await;

    swap(volume.path(), "..2", &second.0, &second.1, None);
    server
        .state
        .wait_for(|state| state.reloads == 2)
        .await
        .unwrap();
    get(&mut connect(&server, &second.2).await.unwrap()).await;
    assert!(
        connect(&server, &first.2).await.is_err(),
        "the former certificate is still served"
    );
    get(&mut old).await;

    // A broken certificate changes only the number of failures.
    swap(volume.path(), "..3", "garbage", &first.1, None);
    server
        .state
        .wait_for(|state| state.failures == 1)
        .await
        .unwrap();
    get(&mut connect(&server, &second.2).await.unwrap()).await;
    assert_eq!(server.state.borrow().reloads, 2);
}

#[tokio::test]
async fn connections_are_closed_until_there_is_a_certificate() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    let mut server = start(directory.path()).await;
    assert!(connect(&server, &der).await.is_err());
    write(directory.path(), &certificate, &key);
    server
        .state
        .wait_for(|state| state.not_after.is_some())
        .await
        .unwrap();
    get(&mut connect(&server, &der).await.unwrap()).await;
}

#[tokio::test]
async fn a_stop_ends_idle_connections_and_the_server() {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let server = start(directory.path()).await;
    let mut idle = connect(&server, &der).await.unwrap();
    get(&mut idle).await;
    server.stop.cancel();
    server.served.await.unwrap();
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(server.address).await.is_err());
}

/// The first bytes of an HTTP/2 client.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Asserts that the server closes a connection on which the client sends only `said`.
async fn assert_ends(limits: Limits, protocol: &str, said: &[u8]) {
    let directory = TempDir::new().unwrap();
    let (certificate, key, der) = issue();
    write(directory.path(), &certificate, &key);
    let server = start_with(directory.path(), limits).await;
    let mut stream = connect_for(&server, &der, protocol).await.unwrap();
    stream.write_all(said).await.unwrap();
    let end = async { while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} };
    let ended = tokio::time::timeout(Duration::from_secs(20), end).await;
    let said = String::from_utf8_lossy(said);
    assert!(ended.is_ok(), "{protocol} {said:?}");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_for_every_protocol() {
    let limits = Limits {
        header: Duration::from_millis(100),
        ..Limits::default()
    };
    for (protocol, said) in [("http/1.1", ""), ("http/1.1", "GET"), ("h2", "")] {
        assert_ends(limits, protocol, said.as_bytes()).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_even_after_an_incomplete_preface() {
    let limits = Limits {
        idle: Duration::from_millis(100),
        drain: Duration::from_millis(100),
        ..Limits::default()
    };
    // Neither client sends SETTINGS.
    for said in ["PRI *", PREFACE] {
        assert_ends(limits, "h2", said.as_bytes()).await;
    }
}

#[tokio::test]
async fn a_connection_that_does_not_read_its_answer_is_closed_at_its_age() {
    let limits = Limits {
        age: Duration::from_millis(100),
        drain: Duration::from_millis(100),
        ..Limits::default()
    };
    // RFC 9113, 4.1 and 6.5: SETTINGS with INITIAL_WINDOW_SIZE 0. Then HEADERS of stream 1 with END_STREAM:
    // `GET https:/` from the static table of RFC 7541.
    let settings = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00";
    let headers = b"\x00\x00\x03\x01\x05\x00\x00\x00\x01\x82\x87\x84";
    let said = [PREFACE.as_bytes(), settings, headers].concat();
    assert_ends(limits, "h2", &said).await;
}

#[tokio::test]
async fn connections_without_tls_are_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(|_: Request<RequestBody>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    tokio::spawn(serve(
        listener,
        Acceptor::Plain,
        service,
        Limits::default(),
        Metrics::default(),
        Shutdown::default(),
    ));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    assert!(received.ends_with("hello"), "{received}");
}

#[tokio::test]
async fn a_certificate_waits_until_its_authority_is_trusted() {
    let volume = TempDir::new().unwrap();
    let (first, second) = (TestAuthority::new("one"), TestAuthority::new("two"));
    first.swap(volume.path(), "..1", |_| {});
    let mut reloader = Reloader::new(Files::from(volume.path()), clock);
    let authorities = |of: &[&TestAuthority]| -> Authorities {
        of.iter().map(|of| of.0.der().to_vec()).collect()
    };
    let (trust, trusted) = tokio::sync::watch::channel(authorities(&[&first]));
    reloader.wait_for_trust(trusted);
    let mut state = reloader.state();
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));

    second.swap(volume.path(), "..2", |_| {});
    let seen = authorities(&[&second]);
    state.wait_for(|state| state.mounted == seen).await.unwrap();
    assert_eq!(state.borrow().served, authorities(&[&first]));
    trust.send_replace(authorities(&[&first, &second]));
    state.wait_for(|state| state.served == seen).await.unwrap();

    // The only authority is the one that is served now. A caller that does not trust it cannot call the server now
    // either.
    trust.send_replace(Authorities::new());
    let third = second.sign(|_| {});
    swap(
        volume.path(),
        "..3",
        &third.0,
        &third.1,
        Some(&second.0.pem()),
    );
    state.wait_for(|state| state.reloads == 3).await.unwrap();
    stop.cancel();
}

#[tokio::test]
async fn a_certificate_that_expires_in_service_is_reported() {
    static NOW: AtomicI64 = AtomicI64::new(0);
    let later = || clock() + SignedDuration::from_secs(NOW.load(Ordering::Relaxed));
    let volume = TempDir::new().unwrap();
    let (certificate, key, _) = issue();
    swap(volume.path(), "..1", &certificate, &key, None);
    let reloader = Reloader::new(Files::from(volume.path()), later);
    let mut state = reloader.state();
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));
    let not_after = state.borrow().not_after.unwrap();
    NOW.store(
        not_after.duration_since(clock()).as_secs(),
        Ordering::Relaxed,
    );
    let expired = state
        .wait_for(|state| state.problem.is_some())
        .await
        .unwrap();
    let problem = expired.problem.clone().unwrap().message;
    assert!(problem.contains("tls.crt: expired at "), "{problem}");
    assert_eq!(expired.not_after, Some(not_after));
    drop(expired);
    stop.cancel();
}

#[tokio::test]
async fn the_files_replace_the_temporary_certificate() {
    let directory = TempDir::new().unwrap();
    let meanwhile = Certificates::self_signed(&["localhost".to_owned()], clock()).unwrap();
    let served = meanwhile.authorities.clone();
    let reloader = Reloader::with_substitute(Files::from(directory.path()), clock, meanwhile);
    let mut state = reloader.state();
    assert_eq!(state.borrow().served, served);
    let stop = CancellationToken::new();
    tokio::spawn(reloader.run(Duration::from_millis(5), stop.clone()));
    let (certificate, key, _) = issue();
    write(directory.path(), &certificate, &key);
    state.wait_for(|state| state.reloads == 2).await.unwrap();
    stop.cancel();
}
