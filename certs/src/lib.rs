//! TLS certificates, and the connections that use them.
//!
//! [`mod@load`] turns PEM files into a `rustls` configuration. [`reload`] detects changes of the files while
//! connections are served. [`mod@serve`] is the accept loop with its limits and its drain. This crate does not depend
//! on Kubernetes, routes or bodies.

mod client_names;
mod clock;
mod connection;
mod error;
mod leaf;
mod limits;
pub mod load;
mod metrics;
pub mod reload;
mod self_dial;
pub mod serve;
#[cfg(test)]
mod tests;

pub use client_names::ClientNames;
pub use clock::Clock;
pub use connection::Shutdown;
pub use error::{CertificateError, CertificateProblem};
pub use limits::Limits;
pub use load::{Authorities, Certificates, Files};
pub use metrics::Metrics;
pub use reload::{CertificateState, Problem, Reloader};
pub use self_dial::SelfDial;
pub use serve::{Acceptor, serve};
