//! Runs the binary: invalid configuration, probes, certificates, requests over TLS, and shutdown.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "binary/certificates.rs"]
mod certificates;
#[path = "binary/client.rs"]
mod client;
#[path = "binary/crowd.rs"]
mod crowd;
#[path = "binary/customizations.rs"]
mod customizations;
#[path = "binary/image_files.rs"]
mod image_files;
#[path = "binary/interpret.rs"]
mod interpret;
#[path = "binary/interpreter.rs"]
mod interpreter;
#[path = "binary/log.rs"]
mod log;
#[path = "binary/memory.rs"]
mod memory;
#[path = "binary/refusals.rs"]
mod refusals;
#[path = "binary/server.rs"]
mod server;

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

/// Longest time for any step of the process.
const WITHIN: Duration = Duration::from_secs(20);
const HEAD: &str = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n";

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compute-federation"));
    command
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        // The symbols for one backtrace of this build need more memory than tests of memory allow.
        .env_remove("RUST_BACKTRACE")
        .kill_on_drop(true);
    command
}

fn write(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}
