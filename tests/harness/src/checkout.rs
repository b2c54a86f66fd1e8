//! Finds the source tree.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the root of the checkout that Cargo runs in.
///
/// Several checkouts can share a target directory, so a program may have been built from another checkout. The
/// build-time path is used only for a program that Cargo has not started.
pub fn root() -> PathBuf {
    let run = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = run.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    let root = package
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists() && folder.join("tests/tools").exists());
    root.unwrap_or(&package).to_owned()
}
