//! Cargo, called for what the commands need.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use harness::checkout::root;

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
    let status = command(args)
        .envs(environment.iter().copied())
        .status()
        .context("cargo not started")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// The same, but gives what Cargo prints on its standard output.
pub(crate) fn cargo_output(args: &[&str]) -> anyhow::Result<String> {
    let output = command(args)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo not started")?;
    ensure!(output.status.success(), "cargo {} failed", args.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

fn command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// Builds the compute-federation binary and gives its path.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--locked", "--package", "compute-federation"])?;
    Ok(target().join("debug/compute-federation"))
}
