//! Checks that callers would accept a certificate chain at a given time.

use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::CertificateProblem;
use crate::leaf::Leaf;
use crate::validity::Validity;

/// A certificate, its intermediates, and the authorities that came with it.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) leaf: Leaf,
    pub(crate) intermediates: Vec<CertificateDer<'static>>,
    /// Without authorities, the chain is not checked.
    pub(crate) authorities: Vec<Authority>,
    /// File name of the authorities, for error messages.
    pub(crate) file: String,
}

/// A certificate of an authority.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    der: Vec<u8>,
    /// Contains only this authority.
    root: RootCertStore,
    validity: Validity,
}

impl Authority {
    /// Decodes the certificate.
    pub(crate) fn new(der: &[u8]) -> Result<Self, CertificateProblem> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| CertificateProblem::NotX509(Box::new(error)))?;
        let mut root = RootCertStore::empty();
        root.add(CertificateDer::from(der))
            .map_err(|error| CertificateProblem::NotX509(Box::new(error)))?;
        Ok(Self {
            der: der.to_vec(),
            root,
            validity: Validity::of(&certificate),
        })
    }
}

impl Chain {
    /// Checks that the certificate is valid at this time, and that an authority that is valid at this time signed it,
    /// directly or through the intermediates.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), CertificateProblem> {
        self.leaf.check_time(now)?;
        self.check_authorities(now)
    }

    /// Returns the validity period of the certificate, or of the authority that signed it, if the authority expires
    /// earlier. If several valid authorities signed it, the one that expires last counts. After the period, callers do
    /// not accept the certificate.
    pub(crate) fn validity(&self, now: Timestamp) -> Validity {
        let own = self.leaf.validity();
        if !self.needs_signature() {
            return own;
        }
        let authorities = self
            .authorities
            .iter()
            .filter(|it| it.validity.contains(now));
        let signed = authorities.filter(|it| self.verify(&[*it], now).is_ok());
        let last = signed.map(|it| it.validity).max_by_key(|it| it.not_after);
        last.map_or(own, |last| {
            std::cmp::min_by_key(own, last, |it| it.not_after)
        })
    }

    /// Returns whether an authority must have signed the certificate. As in Go, a certificate that is itself an
    /// authority needs no other signature.
    fn needs_signature(&self) -> bool {
        let is_leaf = |authority: &Authority| self.leaf.der().as_ref() == authority.der;
        !self.authorities.is_empty() && !self.authorities.iter().any(is_leaf)
    }

    /// As in Go, an authority must be valid too. `rustls` does not check the validity period of an authority.
    fn check_authorities(&self, now: Timestamp) -> Result<(), CertificateProblem> {
        if !self.needs_signature() {
            return Ok(());
        }
        let (valid, others): (Vec<_>, Vec<_>) = self
            .authorities
            .iter()
            .partition(|authority| authority.validity.contains(now));
        let Err(source) = self.verify(&valid, now) else {
            return Ok(());
        };
        let authorities = self.file.clone();
        let signed = |authority: &&Authority| self.verify(&[authority], now).is_ok();
        Err(match others.into_iter().find(signed) {
            Some(Authority { validity, .. }) => CertificateProblem::AuthorityNotValid {
                authorities,
                not_before: validity.not_before,
                not_after: validity.not_after,
            },
            None => CertificateProblem::Untrusted {
                authorities,
                source,
            },
        })
    }

    /// Checks that one of these authorities signed the certificate. Does not check the validity periods of the
    /// authorities.
    fn verify(&self, authorities: &[&Authority], now: Timestamp) -> Result<(), rustls::Error> {
        let roots = authorities
            .iter()
            .flat_map(|authority| &authority.root.roots);
        let roots: RootCertStore = roots.cloned().collect();
        let leaf = ParsedCertificate::try_from(self.leaf.der())?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let algorithms = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &leaf,
            &roots,
            &self.intermediates,
            now,
            algorithms,
        )
        .map_err(without_time)
    }
}

/// Removes the time of the check from the error. Otherwise each check would find another problem.
fn without_time(error: rustls::Error) -> rustls::Error {
    use rustls::{CertificateError, Error::InvalidCertificate};
    match error {
        InvalidCertificate(CertificateError::ExpiredContext { .. }) => {
            InvalidCertificate(CertificateError::Expired)
        }
        InvalidCertificate(CertificateError::NotValidYetContext { .. }) => {
            InvalidCertificate(CertificateError::NotValidYet)
        }
        error => error,
    }
}
