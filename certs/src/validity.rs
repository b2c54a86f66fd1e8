//! The validity period of a certificate.

use jiff::Timestamp;
use x509_parser::prelude::X509Certificate;

use crate::error::CertificateProblem;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Validity {
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Result<Self, CertificateProblem> {
        let time =
            |seconds| Timestamp::from_second(seconds).map_err(CertificateProblem::ExpiryOutOfRange);
        let validity = certificate.validity();
        Ok(Self {
            not_before: time(validity.not_before.timestamp())?,
            not_after: time(validity.not_after.timestamp())?,
        })
    }

    pub(crate) fn contains(self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }
}
