//! TLS material and the connections that are served with it.
//!
//! Owns the way from a directory of PEM files to a `rustls` configuration ([`load`]), its reload while connections go on
//! ([`reload`]), and the accept loop with its limits and its drain ([`mod@serve`]). Knows no Kubernetes, no
//! routes and no bodies. Times are handed in as a [`Clock`].

mod connection;
mod limits;
pub mod load;
mod metrics;
pub mod reload;
pub mod serve;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use connection::Shutdown;
pub use limits::Limits;
pub use load::{Authorities, CertificateError, Certificates, Files};
pub use metrics::Metrics;
pub use reload::Reloader;
pub use serve::{Acceptor, serve};

/// Tells the time.
pub type Clock = fn() -> Timestamp;
