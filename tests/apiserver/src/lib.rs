//! An API server in memory, for tests and benchmarks.
//!
//! [`ApiServer`] lists, watches and writes objects by the rules of a kube-apiserver, as far as compute-federation
//! relies on these rules. [`ApiServer::client`] returns a `kube::Client` that needs no socket and works on a paused
//! tokio clock. [`ApiServer::answer`] answers one HTTP request, so a program can serve it over TLS. A [`Fault`] makes
//! the API server hang, refuse requests, lose responses or cut connections. `tests/federation/conformance.rs` runs the
//! same scenarios on this API server and on a kube-apiserver, and compares the responses.
//!
//! This API server does not authorize requests, does not validate objects and sets no defaults. It has no schemas, and
//! every kind has one version. [`objects`] builds the objects that the tests of several crates need.

#![allow(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests and benchmarks use this crate"
)]

mod answer;
mod apply;
mod discovery;
mod faults;
mod kinds;
mod log;
pub mod objects;
mod refusal;
mod request;
mod selector;
mod server;
mod state;
mod watch;
mod write;

pub use answer::{Answer, AnswerBody, Disconnected, json_response};
pub use faults::Fault;
pub use kinds::{Kind, KindId};
pub use log::{Logged, Verb};
pub use refusal::Refusal;
pub use request::ObjectPart;
pub use server::ApiServer;
pub use state::{Backup, Key, Stored, time_now};
pub use write::ObjectChange;

/// Returns the text at a JSON pointer. The text is empty if there is none.
pub fn text<'v>(value: &'v serde_json::Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(serde_json::Value::as_str);
    found.unwrap_or_default()
}
