//! Checks that the process accepts TLS connections at its own port. The check fails if the accept queue is full, the
//! accept loop is stuck or the certificate is unusable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// Time limit of a check. It is shorter than the default timeout of a kubelet's probe (1 s).
const LIMIT: Duration = Duration::from_millis(900);
/// Time for which a result is reused. `/readyz` has no authentication, so its callers must not cause one handshake per
/// request.
const FRESH: Duration = Duration::from_secs(1);

/// Dials one listener of this process.
#[derive(Debug)]
pub struct SelfDial {
    address: SocketAddr,
    /// The last result. The lock lets one check run at a time.
    last: Arc<Mutex<Option<Checked>>>,
}

/// The result of a check, and when it was found.
type Checked = (Instant, Result<(), String>);

impl SelfDial {
    /// Returns the check for a listener at this address.
    pub fn new(listener: SocketAddr) -> Self {
        Self {
            address: listener,
            last: Arc::default(),
        }
    }

    /// Returns the problem, if the last handshake failed.
    ///
    /// # Cancel safety
    ///
    /// A check that has begun runs to its end. A caller that goes away neither causes another handshake nor changes the
    /// result for other callers.
    pub async fn problem(&self) -> Option<String> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some((found, result)) = &*last
            && found.elapsed() < FRESH
        {
            return result.clone().err();
        }
        let listener = self.address;
        let check = tokio::spawn(async move {
            let result = dial(listener).await;
            *last = Some((Instant::now(), result.clone()));
            result
        });
        match check.await {
            Ok(result) => result.err(),
            Err(error) => Some(format!("the check of the webhook server failed: {error}")),
        }
    }
}

/// Makes one handshake with a listener.
async fn dial(listener: SocketAddr) -> Result<(), String> {
    let failed = |problem: &dyn std::fmt::Display| {
        format!("the webhook server does not accept TLS connections at {listener}: {problem}")
    };
    let handshake = async {
        let stream = TcpStream::connect(reachable(listener).as_slice()).await?;
        let connector = TlsConnector::from(Arc::new(client_config()?));
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let mut stream = connector.connect(name, stream).await?;
        // A reset instead of a close would count as a failed connection.
        stream.shutdown().await
    };
    match timeout(LIMIT, handshake).await {
        Ok(handshake) => handshake.map_err(|error| failed(&error)),
        Err(_) => Err(failed(&format_args!(
            "no answer within {} ms",
            LIMIT.as_millis()
        ))),
    }
}

/// Returns the addresses at which a listener can be reached from this process, in the order in which they are tried. A
/// listener at all addresses is reached at a loopback address. A network namespace can accept a listener at `::` and
/// have no IPv6 loopback address.
fn reachable(listener: SocketAddr) -> Vec<SocketAddr> {
    let addresses: Vec<IpAddr> = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        IpAddr::V6(ip) if ip.is_unspecified() => {
            vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        }
        ip => vec![ip],
    };
    let addresses = addresses.into_iter();
    addresses
        .map(|ip| SocketAddr::new(ip, listener.port()))
        .collect()
}

fn client_config() -> std::io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Accepts every certificate. The reloader has checked the certificate, and callers reach the server at other names
/// than this process does.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.0.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Empty;
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Certificates, Limits, Metrics, Shutdown, serve};

    /// Starts a server, and returns the check of its port.
    async fn dial_of_a_server() -> SelfDial {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dial = SelfDial::new(listener.local_addr().unwrap());
        let now = "2026-11-21T10:00:00Z".parse().unwrap();
        let certificates = Certificates::self_signed(&["elsewhere".to_owned()], now).unwrap();
        let service = service_fn(|_| async {
            Ok::<_, Infallible>(http::Response::new(Empty::<bytes::Bytes>::new()))
        });
        let (limits, metrics) = (Limits::default(), Metrics::default());
        let shutdown = Shutdown::default();
        tokio::spawn(serve(
            listener,
            certificates.into(),
            service,
            limits,
            metrics,
            shutdown,
        ));
        dial
    }

    #[tokio::test]
    async fn a_port_that_ends_its_handshake_is_no_problem() {
        assert_eq!(dial_of_a_server().await.problem().await, None);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_changes_no_answer_to_others() {
        let dial = dial_of_a_server().await;
        tokio::select! {
            biased;
            _ = dial.problem() => panic!("no test"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(dial.problem().await, None);
    }

    #[tokio::test]
    async fn a_port_that_does_not_answer_is_named_and_dialed_once_per_second() {
        // Nothing accepts the connections of this listener.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dial = SelfDial::new(address);
        let problems = tokio::join!(dial.problem(), dial.problem(), dial.problem());
        let expected = Some(format!(
            "the webhook server does not accept TLS connections at {address}: no answer within 900 ms"
        ));
        assert_eq!(problems, (expected.clone(), expected.clone(), expected));
        drop(listener.accept().await.unwrap());
        let more = timeout(Duration::from_millis(1), listener.accept()).await;
        assert!(more.is_err(), "a second handshake was begun");
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_causes_one_handshake_per_second() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dial = SelfDial::new(listener.local_addr().unwrap());
        for _ in 0..10 {
            let _ = timeout(Duration::from_millis(1), dial.problem()).await;
        }
        let accepted = async {
            for _ in 0..2 {
                drop(listener.accept().await.unwrap());
            }
        };
        let more = timeout(Duration::from_millis(100), accepted).await;
        assert!(more.is_err(), "a second handshake was begun");
    }

    #[test]
    fn a_listener_at_all_addresses_is_dialed_at_loopback() {
        for (listener, expected) in [
            ("0.0.0.0:1", &["127.0.0.1:1"][..]),
            // Without an IPv6 loopback address, the second address is the reachable one.
            ("[::]:1", &["[::1]:1", "127.0.0.1:1"]),
            ("10.0.0.7:1", &["10.0.0.7:1"]),
        ] {
            let found = reachable(listener.parse().unwrap());
            let expected = expected.iter().map(|it| it.parse().unwrap());
            assert_eq!(found, expected.collect::<Vec<SocketAddr>>());
        }
    }
}
