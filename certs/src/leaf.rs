//! Checks that callers would accept a certificate: its time, its authorities and its names.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::CertificateProblem;

/// Maximum number of names of a certificate in an error message.
const LISTED_NAMES: usize = 8;

/// The leaf of a certificate chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    der: CertificateDer<'static>,
    not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    /// The subject alternative names.
    names: Vec<String>,
}

impl Leaf {
    /// Decodes the certificate.
    pub(crate) fn new(der: CertificateDer<'static>) -> Result<Self, CertificateProblem> {
        let not_x509 = |error| CertificateProblem::NotX509(Box::new(error));
        let (_, leaf) = X509Certificate::from_der(&der).map_err(not_x509)?;
        let time =
            |seconds| Timestamp::from_second(seconds).map_err(CertificateProblem::ExpiryOutOfRange);
        let not_before = time(leaf.validity().not_before.timestamp())?;
        let not_after = time(leaf.validity().not_after.timestamp())?;
        let names = names(&leaf);
        Ok(Self {
            der,
            not_before,
            not_after,
            names,
        })
    }

    /// Checks that the certificate is valid at this time.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), CertificateProblem> {
        if self.not_after <= now {
            return Err(CertificateProblem::Expired(self.not_after));
        }
        if now < self.not_before {
            return Err(CertificateProblem::NotYetValid(self.not_before));
        }
        Ok(())
    }

    /// Checks that one of the authorities signed the certificate, directly or through the intermediates. As in Go, a
    /// certificate that is itself an authority needs no other signature.
    pub(crate) fn check_authorities(
        &self,
        intermediates: &[CertificateDer<'_>],
        authorities: &BTreeSet<Vec<u8>>,
        file: &str,
        now: Timestamp,
    ) -> Result<(), CertificateProblem> {
        if authorities.is_empty() || authorities.contains(self.der.as_ref()) {
            return Ok(());
        }
        let untrusted = |source| CertificateProblem::Untrusted {
            authorities: file.to_owned(),
            source,
        };
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            let authority = CertificateDer::from(authority.as_slice());
            roots.add(authority).map_err(untrusted)?;
        }
        let parsed = ParsedCertificate::try_from(&self.der).map_err(untrusted)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let algorithms = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, now, algorithms)
            .map_err(untrusted)
    }

    /// Checks that the certificate has one of the names at which callers reach the server. Without expected names,
    /// every certificate is accepted.
    pub(crate) fn check_names(
        &self,
        expected: &BTreeSet<String>,
    ) -> Result<(), CertificateProblem> {
        let parsed = ParsedCertificate::try_from(&self.der);
        let has = |name: &String| {
            let (Ok(parsed), Ok(name)) = (&parsed, ServerName::try_from(name.as_str())) else {
                return false;
            };
            verify_server_name(parsed, &name).is_ok()
        };
        if expected.is_empty() || expected.iter().any(has) {
            return Ok(());
        }
        Err(CertificateProblem::WrongNames {
            expected: expected.iter().cloned().collect(),
            found: self.names.iter().take(LISTED_NAMES).cloned().collect(),
        })
    }
}

/// Returns the DNS names and the IP addresses among the subject alternative names.
fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(alternative)) = leaf.subject_alternative_name() else {
        return Vec::new();
    };
    let names = alternative.value.general_names.iter();
    let name = |name: &GeneralName<'_>| match *name {
        GeneralName::DNSName(name) => Some(name.to_owned()),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(octets).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    };
    names.filter_map(name).collect()
}
