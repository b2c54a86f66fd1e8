//! TLS certificates, and the connections that use them.
//!
//! [`mod@load`] turns PEM files into a `rustls` configuration. [`reload`] detects changes of the files while
//! connections are served. [`mod@serve`] is the accept loop with its limits and its drain. This crate does not depend
//! on Kubernetes, routes or bodies.

mod activity;
mod bodies;
mod clock;
mod connection;
mod handshakes;
mod limits;
pub mod load;
mod metrics;
mod peers;
pub mod reload;
pub mod serve;
mod slots;
#[cfg(test)]
mod tests;

pub use bodies::RequestBody;
pub use clock::Clock;
pub use connection::Shutdown;
pub use limits::{Limits, Shares};
pub use load::{Authorities, CertificateError, CertificateProblem, Certificates, Files};
pub use metrics::Metrics;
pub use reload::{CertificateState, Reloader};
pub use serve::{Acceptor, serve};
