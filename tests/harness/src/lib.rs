//! A real federation on loopback, for tests and for the demo.
//!
//! Every part is a separate process: etcd, the API servers and controller managers of the project, the hub and the
//! cells, four Karmada processes, compute-federation in its roles, and one infrastructure provider per cell. Each
//! process runs under a [`tether`]. The tether kills the process when its parent ends for any reason.
//!
//! [`Milo`] is separate. It starts only the API servers of the projects and the root, with a front and an authorizer
//! inside this process.
//!
//! [`QuotaSystem`] is a double of Milo's quota system. It is added to the API servers of projects.
//!
//! [`NetworkOperator`] is a double of the network operator. It is added to the API server of a cell.
//!
//! [`Hub`] is a hub alone. Its cells are elsewhere.
//!
//! [`Node`] is a cluster with a real node, on which Pods run. It needs root.
//!
//! [`Installation`] is compute-federation as Pods on such nodes, with a hub and Milo.
//!
//! A program that uses this crate must call [`reexec`] at the start of `main`. Tethers, providers and the first process
//! of each node are additional processes of the same executable, and `reexec` runs them.

mod admission;
pub mod audit;
pub mod checkout;
mod crash;
pub mod federation;
mod files;
pub mod former;
mod forward;
mod go;
pub mod hub;
mod inotify;
pub mod installation;
mod karmada;
pub mod kustomize;
pub mod lua_suite;
pub mod manager;
pub mod manifests;
pub mod milo;
pub mod network_operator;
pub mod networking;
pub mod node;
pub mod objects;
pub mod peers;
mod pki;
pub mod plane;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod provider;
pub mod proxy;
pub mod quota;
mod registration;
pub mod rights;
pub mod rivals;
mod serve;
pub mod site_proxy;
mod status_error;
pub mod tether;
pub mod uplink;
pub mod wait;
pub mod webhook_certificate;
pub mod workloads;

pub use crash::{Crashing, PausedPlane};
pub use federation::{CellConfig, Config, Federation, admit_lower_hub};
pub use hub::{Hub, HubConfig};
pub use installation::{Installation, InstallationConfig};
pub use milo::{Milo, MiloConfig};
pub use network_operator::NetworkOperator;
pub use node::{Node, NodeConfig};
pub use plane::Plane;
pub use quota::QuotaSystem;

/// Runs a tether, the provider or the process 1 of a node if this process was started as one of them. In this case, the
/// function does not return.
pub fn reexec() {
    let mut args = std::env::args_os().skip(1);
    let code = match args.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(tether::HOLD) => tether::hold(args),
        Some(tether::EXEC) => tether::exec(args),
        Some(provider::RUN) => provider::run(args),
        Some(node::tether::HOLD) => node::tether::hold(args),
        Some(node::init::INIT) => node::init::run(args),
        _ => return,
    };
    std::process::exit(code);
}
