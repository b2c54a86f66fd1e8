//! Finds the source tree.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the root of the checkout in which Cargo runs.
///
/// Several checkouts can share a target directory, so a program may come from the build of another checkout. The path
/// from the build is used only if Cargo has not started the program.
pub fn root() -> PathBuf {
    let run = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = run.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    let root = package
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists() && folder.join("tests/tools").exists());
    root.unwrap_or(&package).to_owned()
}
