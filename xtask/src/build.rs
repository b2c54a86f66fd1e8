//! Cargo, called for what the commands need.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// The build's target directory.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Runs Cargo in the root of the checkout with its output going where ours goes.
pub(crate) fn cargo(args: &[&str]) -> anyhow::Result<()> {
    cargo_with(args, &[])
}

/// The same, with more environment variables.
pub(crate) fn cargo_with(args: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .context("cargo not started")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Builds the compute-federation binary and gives its path.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--locked", "--package", "compute-federation"])?;
    Ok(target().join("debug/compute-federation"))
}
