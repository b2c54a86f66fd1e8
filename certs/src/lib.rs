//! TLS material and the connections that are served with it.
//!
//! Owns the way from a directory of PEM files to a `rustls` configuration ([`load`]), its reload while connections go on
//! ([`reload`]), and the accept loop with its limits and its drain ([`mod@serve`]). Knows no Kubernetes, no
//! routes and no bodies. Times are handed in as a [`Clock`].

pub mod load;
pub mod reload;
pub mod serve;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use load::{CertificateError, Certificates, Files};
pub use reload::Reloader;
pub use serve::{Acceptor, Limits, serve};

/// Tells the time.
pub type Clock = fn() -> Timestamp;
