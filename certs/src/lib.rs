//! TLS certificates, and the connections that use them.
//!
//! [`mod@load`] turns PEM files into a `rustls` configuration. [`reload`] detects changes of the files while
//! connections are served. [`mod@serve`] accepts connections within limits. When the server stops, [`mod@serve`] waits
//! for the requests in flight. This crate has no code for Kubernetes, for HTTP routes or for the content of HTTP
//! bodies.

mod activity;
mod bodies;
mod chain;
mod client_names;
mod client_verifier;
mod clock;
mod connection;
mod error;
mod handshakes;
mod leaf;
mod limits;
pub mod load;
mod metrics;
mod peers;
pub mod reload;
mod self_dial;
pub mod serve;
mod slots;
#[cfg(test)]
mod tests;
mod validity;

pub use bodies::RequestBody;
pub use client_names::ClientNames;
pub use clock::Clock;
pub use connection::Shutdown;
pub use error::{CertificateError, CertificateProblem};
pub use limits::{Limits, Shares};
pub use load::{Authorities, Certificates, Files};
pub use metrics::Metrics;
pub use reload::{CertificateState, Problem, Reloader};
pub use self_dial::SelfDial;
pub use serve::{Acceptor, serve};
