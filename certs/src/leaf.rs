//! Checks the time and the names of a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::CertificateProblem;
use crate::validity::Validity;

/// Maximum number of names of a certificate in an error message.
const LISTED_NAMES: usize = 8;

/// The leaf of a certificate chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    der: CertificateDer<'static>,
    validity: Validity,
    /// The subject alternative names.
    names: Vec<String>,
}

impl Leaf {
    /// Decodes the certificate.
    pub(crate) fn new(der: CertificateDer<'static>) -> Result<Self, CertificateProblem> {
        let not_x509 = |error| CertificateProblem::NotX509(Box::new(error));
        let (_, leaf) = X509Certificate::from_der(&der).map_err(not_x509)?;
        let validity = Validity::of(&leaf);
        let names = names(&leaf);
        Ok(Self {
            der,
            validity,
            names,
        })
    }

    /// Checks that the certificate is valid at this time.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<(), CertificateProblem> {
        let Validity {
            not_before,
            not_after,
        } = self.validity;
        if self.validity.contains(now) {
            Ok(())
        } else if now < not_before {
            Err(CertificateProblem::NotYetValid(not_before))
        } else {
            Err(CertificateProblem::Expired(not_after))
        }
    }

    /// Returns the validity period of the certificate.
    pub(crate) fn validity(&self) -> Validity {
        self.validity
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Checks that the certificate has one of the names at which callers reach the server. Without expected names,
    /// every certificate is accepted.
    pub(crate) fn check_names(
        &self,
        expected: &BTreeSet<String>,
    ) -> Result<(), CertificateProblem> {
        let has = self.names_of(expected);
        if expected.is_empty() || !has.is_empty() {
            return Ok(());
        }
        Err(CertificateProblem::WrongNames {
            expected: expected.iter().cloned().collect(),
            found: self.first_names(),
        })
    }

    /// Checks that the certificate has every expected name that the former certificate has.
    pub(crate) fn check_kept_names(
        &self,
        expected: &BTreeSet<String>,
        former: &Self,
    ) -> Result<(), CertificateProblem> {
        let (has, had) = (self.names_of(expected), former.names_of(expected));
        let lost: Vec<String> = had.difference(&has).map(|&name| name.clone()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        Err(CertificateProblem::LostNames {
            lost,
            found: self.first_names(),
        })
    }

    /// Returns the names for which the certificate is valid.
    fn names_of<'n>(&self, names: &'n BTreeSet<String>) -> BTreeSet<&'n String> {
        let Ok(parsed) = ParsedCertificate::try_from(&self.der) else {
            return BTreeSet::new();
        };
        let has = |name: &&String| {
            ServerName::try_from(name.as_str())
                .is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
        };
        names.iter().filter(has).collect()
    }

    fn first_names(&self) -> Vec<String> {
        self.names.iter().take(LISTED_NAMES).cloned().collect()
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
