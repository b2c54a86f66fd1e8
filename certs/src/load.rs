//! Makes a TLS server configuration from PEM files or from a new self-signed certificate.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::chain::{Authority, Chain};
use crate::client_verifier;
use crate::error::{CertificateError, CertificateProblem};
use crate::leaf::Leaf;

/// Validity of a self-signed certificate: one year. A process usually runs for less time.
const SELF_SIGNED_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Maximum number of attempts to read one generation of the directory. Writers replace a generation once in minutes.
const ATTEMPTS: usize = 8;

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The directory of the files. A CSI driver or a Secret volume writes it.
    pub directory: PathBuf,
    /// File name of the certificate chain, leaf first.
    pub certificate: String,
    /// File name of the private key.
    pub key: String,
    /// File name of the certificates of the authorities that sign the certificate. The file is optional, and it may be
    /// empty: the CSI driver of cert-manager writes an empty file if the issuer gives no authority.
    pub authorities: String,
    /// File name of the certificates of the authorities that sign the certificates of clients. With `None`, clients are
    /// not asked for a certificate.
    pub client_authorities: Option<String>,
}

/// The PEM texts of one generation of the directory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
    client_authorities: Option<Vec<u8>>,
}

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The TLS configuration for new connections.
    pub config: Arc<ServerConfig>,
    pub(crate) chain: Chain,
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

    /// Returns whether the directory has files, of any name. The entries of Secret volumes whose names begin with `..`
    /// do not count. For a directory that cannot be listed, returns true, because it may have files.
    pub(crate) fn directory_has_files(&self) -> bool {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) => return error.kind() != ErrorKind::NotFound,
        };
        let is_file = |name: &OsStr| !name.as_encoded_bytes().starts_with(b"..");
        entries.flatten().any(|entry| is_file(&entry.file_name()))
    }

    /// Reads the files from one generation of the directory. Secret volumes and CSI drivers replace the link `..data`
    /// when the files change, and remove the former generation. If the link changes while the files are read, they are
    /// read again. Otherwise a certificate could be combined with the key of another certificate.
    ///
    /// # Errors
    ///
    /// [`CertificateError::Missing`], [`CertificateError::Unreadable`] or [`CertificateError::Unsteady`].
    pub(crate) fn read(&self) -> Result<Pem, CertificateError> {
        for _ in 0..ATTEMPTS {
            let generation = self.generation()?;
            let pem = self.read_in(generation.as_deref().unwrap_or(&self.directory));
            if self.generation()? == generation {
                return pem;
            }
        }
        Err(CertificateError::Unsteady(self.directory.clone()))
    }

    /// Returns the directory of the current generation. Returns `None` if the files are replaced one by one.
    fn generation(&self) -> Result<Option<PathBuf>, CertificateError> {
        let link = self.directory.join("..data");
        match fs::read_link(&link) {
            Ok(target) => Ok(Some(self.directory.join(target))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CertificateError::Unreadable { path: link, source }),
        }
    }

    fn read_in(&self, generation: &Path) -> Result<Pem, CertificateError> {
        let read = |name: &str| {
            fs::read(generation.join(name)).map_err(|source| {
                let path = self.directory.join(name);
                match source.kind() {
                    ErrorKind::NotFound => CertificateError::Missing(path),
                    _ => CertificateError::Unreadable { path, source },
                }
            })
        };
        let authorities = match read(&self.authorities) {
            Err(CertificateError::Missing(_)) => None,
            read => Some(read?),
        };
        let client_authorities = self.client_authorities.as_deref().map(read).transpose()?;
        Ok(Pem {
            client_authorities,
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            authorities,
        })
    }

    /// Returns an error about the file of the certificate.
    pub(crate) fn refuse(&self, problem: CertificateProblem) -> CertificateError {
        CertificateError::Invalid {
            path: self.certificate_path(),
            problem,
        }
    }

    /// Returns an error about the file of the authorities.
    pub(crate) fn refuse_authorities(&self, problem: CertificateProblem) -> CertificateError {
        CertificateError::Invalid {
            path: self.authorities_path(),
            problem,
        }
    }

    /// Reads and checks the files.
    ///
    /// # Errors
    ///
    /// [`CertificateError`], which contains the file name.
    pub fn load(&self, now: Timestamp) -> Result<Certificates, CertificateError> {
        self.check(&self.read()?, now)
    }

    /// Checks that the PEM texts contain a certificate and its key, that the certificate is valid now, and that one of
    /// the authorities signed it.
    pub(crate) fn check(
        &self,
        pem: &Pem,
        now: Timestamp,
    ) -> Result<Certificates, CertificateError> {
        let refuse = |problem| self.refuse(problem);
        let invalid = |path, problem| CertificateError::Invalid { path, problem };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| refuse(CertificateProblem::NotPem(error)))?;
        let (leaf, intermediates) = chain
            .split_first()
            .ok_or_else(|| refuse(CertificateProblem::NoCertificate))?;
        let leaf = Leaf::new(leaf.clone()).map_err(refuse)?;
        let authorities = authorities(pem.authorities.as_deref().unwrap_or_default())
            .map_err(|problem| self.refuse_authorities(problem))?;
        let roots = authorities.iter().map(|der| Authority::new(der));
        let roots = roots.collect::<Result<_, _>>();
        let checked = Chain {
            leaf,
            intermediates: intermediates.to_vec(),
            authorities: roots.map_err(|problem| self.refuse_authorities(problem))?,
            file: self.authorities.clone(),
        };
        checked.check_time(now).map_err(refuse)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|error| invalid(self.key_path(), CertificateProblem::NoPrivateKey(error)))?;
        let clients = match (&pem.client_authorities, &self.client_authorities) {
            (Some(pem), Some(file)) => Some(
                client_verifier::new(pem)
                    .map_err(|problem| invalid(self.directory.join(file), problem))?,
            ),
            _ => None,
        };
        let config = server_config(chain, key, clients).map_err(|source| {
            let certificate = self.certificate.clone();
            let problem = CertificateProblem::Mismatch {
                certificate,
                source,
            };
            invalid(self.key_path(), problem)
        })?;
        Ok(Certificates {
            config,
            chain: checked,
            authorities,
        })
    }
}

impl Certificates {
    /// Returns the expiry time of the leaf certificate.
    pub fn not_after(&self) -> Timestamp {
        self.chain.leaf.validity().not_after
    }

    /// Makes a new key and a self-signed certificate for these names. The certificate is valid for one year from `now`.
    ///
    /// # Errors
    ///
    /// [`CertificateError::NotIssued`] if a name is not valid in a certificate.
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
        let config = server_config(vec![certificate.der().clone()], key, None)?;
        Ok(Self {
            config,
            chain: Chain {
                leaf: Leaf::new(certificate.der().clone())?,
                intermediates: Vec::new(),
                authorities: vec![Authority::new(certificate.der())?],
                file: String::new(),
            },
            authorities: Authorities::from([certificate.der().to_vec()]),
        })
    }
}

/// Returns the authorities in a PEM text. An empty text has none.
fn authorities(pem: &[u8]) -> Result<Authorities, CertificateProblem> {
    let authorities: Authorities = CertificateDer::pem_slice_iter(pem)
        .map(|authority| authority.map(|authority| authority.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(CertificateProblem::NotPem)?;
    if authorities.is_empty() && !pem.trim_ascii().is_empty() {
        return Err(CertificateProblem::NoCertificate);
    }
    Ok(authorities)
}

/// Returns a configuration that supports TLS 1.2 and 1.3. By ALPN it supports HTTP/2 and HTTP/1.1, but clients need not
/// use ALPN (docs/concepts/interpreter.md). Sessions are not resumed. Callers have few and long connections, so
/// resumption would save little. A resumed session could also outlive its certificate.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    // This call fails if the key does not belong to the certificate.
    let certified = CertifiedKey::from_der(chain, key, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.unwrap_or_else(|| Arc::new(NoClientAuth)))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

impl From<&Path> for Files {
    /// Returns the files of a directory, with the file names that Secret volumes and CSI drivers use.
    fn from(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            certificate: "tls.crt".into(),
            key: "tls.key".into(),
            authorities: "ca.crt".into(),
            client_authorities: None,
        }
    }
}
