//! From PEM files, or from nothing, to a server configuration.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

const SELF_SIGNED_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The directory, as a CSI driver or a Secret volume writes it.
    pub directory: PathBuf,
    /// File name of the certificate chain, leaf first.
    pub certificate: String,
    /// File name of the private key.
    pub key: String,
    /// File name of the authorities that sign the certificate, which need not be there.
    pub authorities: String,
}

/// Why a certificate cannot be served. Every message names the file.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The file is not there, which may be a matter of time.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file can be read and is not what it should be.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No certificate could be made.
    #[error("no self-signed certificate: {0}")]
    NotIssued(#[source] Box<dyn Error + Send + Sync>),
}

/// The PEM texts as they were read, of one generation of the directory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// What new connections are served with.
    pub config: Arc<ServerConfig>,
    /// When the leaf expires.
    pub not_after: Timestamp,
    /// The authorities that came with the certificate.
    pub authorities: Authorities,
}

/// Certificates of authorities, in DER.
pub type Authorities = BTreeSet<Vec<u8>>;

impl Files {
    fn certificate_path(&self) -> PathBuf {
        self.directory.join(&self.certificate)
    }

    fn key_path(&self) -> PathBuf {
        self.directory.join(&self.key)
    }

    fn authorities_path(&self) -> PathBuf {
        self.directory.join(&self.authorities)
    }

    /// Reads the files from one generation of the directory: where `..data` is a link, as Secret volumes and CSI drivers
    /// have it, it is resolved once, so that a swap between two reads cannot mix a certificate with another's key.
    ///
    /// # Errors
    ///
    /// [`CertificateError::Missing`] or [`CertificateError::Unreadable`].
    pub(crate) fn read(&self) -> Result<Pem, CertificateError> {
        let generation = fs::canonicalize(self.directory.join("..data"));
        let directory = generation.unwrap_or_else(|_| self.directory.clone());
        let read = |name: &str| {
            let in_generation = directory.join(name);
            let named = self.directory.join(name);
            fs::read(&in_generation)
                .or_else(|error| match error.kind() {
                    ErrorKind::NotFound => fs::read(&named),
                    _ => Err(error),
                })
                .map_err(|source| match source.kind() {
                    ErrorKind::NotFound => CertificateError::Missing(named),
                    _ => CertificateError::Unreadable {
                        path: named,
                        source,
                    },
                })
        };
        let authorities = match read(&self.authorities) {
            Err(CertificateError::Missing(_)) => None,
            read => Some(read?),
        };
        Ok(Pem {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            authorities,
        })
    }

    pub(crate) fn expired(&self, not_after: Timestamp) -> CertificateError {
        CertificateError::Invalid {
            path: self.certificate_path(),
            problem: format!("expired at {not_after}"),
        }
    }

    /// Reads and checks the files.
    ///
    /// # Errors
    ///
    /// [`CertificateError`], which names the file at fault.
    pub fn load(&self, now: Timestamp) -> Result<Certificates, CertificateError> {
        self.check(&self.read()?, now)
    }

    /// Checks that the PEM texts are a certificate and its key, and that it has not expired.
    pub(crate) fn check(
        &self,
        pem: &Pem,
        now: Timestamp,
    ) -> Result<Certificates, CertificateError> {
        let invalid = |path: PathBuf, problem: String| CertificateError::Invalid { path, problem };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| invalid(self.certificate_path(), format!("is not PEM: {error}")))?;
        let leaf = chain
            .first()
            .ok_or_else(|| invalid(self.certificate_path(), "holds no certificate".into()))?;
        let not_after =
            not_after(leaf).map_err(|problem| invalid(self.certificate_path(), problem))?;
        if not_after <= now {
            return Err(self.expired(not_after));
        }
        let key = PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|error| invalid(self.key_path(), format!("holds no private key: {error}")))?;
        let config = server_config(chain, key).map_err(|error| {
            invalid(
                self.key_path(),
                format!("does not serve {}: {error}", self.certificate),
            )
        })?;
        let authorities = pem.authorities.as_deref().unwrap_or_default();
        let authorities = CertificateDer::pem_slice_iter(authorities)
            .map(|authority| authority.map(|authority| authority.to_vec()))
            .collect::<Result<_, _>>()
            .map_err(|error| invalid(self.authorities_path(), format!("is not PEM: {error}")))?;
        Ok(Certificates {
            config,
            not_after,
            authorities,
        })
    }
}

impl Certificates {
    /// A new key with a certificate for these names that it signs itself, valid for a year from `now`.
    ///
    /// # Errors
    ///
    /// [`CertificateError::NotIssued`] when a name cannot stand in a certificate.
    pub fn self_signed(names: &[String], now: Timestamp) -> Result<Self, CertificateError> {
        Self::issue(names, now).map_err(CertificateError::NotIssued)
    }

    fn issue(names: &[String], now: Timestamp) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let key = rcgen::KeyPair::generate()?;
        let mut params = rcgen::CertificateParams::new(names)?;
        let not_after = now + SELF_SIGNED_LIFETIME;
        let last_day = not_after.to_zoned(TimeZone::UTC).date();
        let unsigned = |part: i8| part.unsigned_abs();
        params.not_after = rcgen::date_time_ymd(
            last_day.year().into(),
            unsigned(last_day.month()),
            unsigned(last_day.day()),
        );
        let certificate = params.self_signed(&key)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = server_config(vec![certificate.der().clone()], key)?;
        Ok(Self {
            config,
            not_after,
            authorities: Authorities::from([certificate.der().to_vec()]),
        })
    }
}

fn not_after(leaf: &CertificateDer<'_>) -> Result<Timestamp, String> {
    let (_, leaf) =
        X509Certificate::from_der(leaf).map_err(|error| format!("is not X.509: {error}"))?;
    let seconds = leaf.validity().not_after.timestamp();
    Timestamp::from_second(seconds)
        .map_err(|error| format!("has an expiry time out of range: {error}"))
}

/// TLS 1.2 and 1.3, h2 and HTTP/1.1 by ALPN, which a client need not speak (karmada.md 1.9). No resumption: callers hold
/// few and long connections, and a resumed one would outlive the certificate that it was made with.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    // Checks that key and certificate belong together.
    let certified = CertifiedKey::from_der(chain, key, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

impl From<&Path> for Files {
    /// The file names that Secret volumes and CSI drivers use.
    fn from(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            certificate: "tls.crt".into(),
            key: "tls.key".into(),
            authorities: "ca.crt".into(),
        }
    }
}
