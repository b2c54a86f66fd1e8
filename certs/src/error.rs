//! The reasons why a certificate cannot be served.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use rustls::pki_types::pem;
use thiserror::Error;

/// The value of the `reason` label for files that cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";
/// The value of the `reason` label for a certificate that has none of the names at which callers reach the server.
pub(crate) const WRONG_NAMES: &str = "wrong_names";

/// The reason why a certificate cannot be served. Every message contains the file name.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The file does not exist, or does not exist yet.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory changed during every attempt to read it.
    #[error("{}: changes too often to be read", .0.display())]
    Unsteady(PathBuf),
    /// The file can be read, but its content cannot be served.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error in the content.
        #[source]
        problem: CertificateProblem,
    },
    /// The self-signed certificate could not be made.
    #[error("no self-signed certificate: {0}")]
    NotIssued(#[source] Box<dyn Error + Send + Sync>),
}

/// The error in the content of a file.
#[derive(Debug, Error)]
pub enum CertificateProblem {
    /// The file is not PEM.
    #[error("is not PEM: {0}")]
    NotPem(#[source] pem::Error),
    /// The file has no certificate.
    #[error("holds no certificate")]
    NoCertificate,
    /// The file of the authorities is missing or empty. The files of the former certificate had authorities.
    #[error(
        "is missing or empty, but the former certificate came with authorities: restore the file, or restart the \
         process to serve without it"
    )]
    NoAuthorities,
    /// The file has no private key.
    #[error("holds no private key: {0}")]
    NoPrivateKey(#[source] pem::Error),
    /// A certificate is not X.509.
    #[error("is not X.509: {0}")]
    NotX509(#[source] Box<dyn Error + Send + Sync>),
    /// The leaf certificate has expired.
    #[error("expired at {0}")]
    Expired(Timestamp),
    /// The leaf certificate is not valid yet.
    #[error("is not valid before {0}")]
    NotYetValid(Timestamp),
    /// No authority of the directory signed the certificate.
    #[error("no authority in {authorities} signed the certificate: {source}")]
    Untrusted {
        /// File name of the authorities.
        authorities: String,
        /// The error of the TLS library.
        source: rustls::Error,
    },
    /// The authority that signed the certificate is itself not valid now. Callers refuse the certificate.
    #[error(
        "the authority in {authorities} that signed the certificate is valid only from {not_before} until {not_after}"
    )]
    AuthorityNotValid {
        /// File name of the authorities.
        authorities: String,
        /// Begin of the validity period of the authority.
        not_before: Timestamp,
        /// End of the validity period of the authority.
        not_after: Timestamp,
    },
    /// Callers reach the server at other names than those of the certificate.
    #[error(
        "has none of the names at which callers reach the server ({}); its names are: {}",
        expected.join(", "),
        found.join(", ")
    )]
    WrongNames {
        /// The names in the registrations of the server.
        expected: Vec<String>,
        /// The first subject alternative names of the certificate.
        found: Vec<String>,
    },
    /// The certificate lacks names of the served certificate, and callers use these names.
    #[error(
        "lacks names of the served certificate at which callers reach the server ({}); its names are: {}",
        lost.join(", "),
        found.join(", ")
    )]
    LostNames {
        /// The missing names.
        lost: Vec<String>,
        /// The first subject alternative names of the certificate.
        found: Vec<String>,
    },
    /// The private key does not belong to the certificate, or TLS does not support it.
    #[error("cannot be used with {certificate}: {source}")]
    Mismatch {
        /// File name of the certificate.
        certificate: String,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

impl CertificateError {
    /// Returns the value of the `reason` label in metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Unreadable { .. } | Self::Unsteady(_) => UNREADABLE,
            Self::NotIssued(_) => "not_issued",
            Self::Invalid { problem, .. } => problem.reason(),
        }
    }
}

impl CertificateProblem {
    /// Returns the value of the `reason` label in metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoAuthorities => "missing",
            Self::NotPem(_) | Self::NoCertificate | Self::NoPrivateKey(_) | Self::NotX509(_) => {
                "broken"
            }
            Self::Expired(_) => "expired",
            Self::NotYetValid(_) => "not_yet_valid",
            Self::Untrusted { .. } | Self::AuthorityNotValid { .. } => "untrusted",
            Self::WrongNames { .. } | Self::LostNames { .. } => WRONG_NAMES,
            Self::Mismatch { .. } => "mismatch",
        }
    }
}
