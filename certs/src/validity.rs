//! The validity period of a certificate.

use jiff::Timestamp;
use x509_parser::prelude::X509Certificate;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Validity {
    /// Returns the validity period. A time that `Timestamp` cannot represent becomes the nearest one that it can. The
    /// expiry time of a certificate without expiry (RFC 5280, 4.1.2.5) is such a time: the last second of the year
    /// 9999.
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let time = |seconds: i64| {
            Timestamp::from_second(seconds.clamp(first, last)).unwrap_or(Timestamp::MAX)
        };
        let validity = certificate.validity();
        Self {
            not_before: time(validity.not_before.timestamp()),
            not_after: time(validity.not_after.timestamp()),
        }
    }

    pub(crate) fn contains(self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }
}
