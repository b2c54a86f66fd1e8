//! Runs Cargo and Git, and builds the compute-federation binary.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use harness::checkout::root;

/// Returns Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Runs Cargo in the root of the checkout. Cargo's output goes to the output of this process.
pub(crate) fn cargo(args: &[&str]) -> anyhow::Result<()> {
    cargo_with(args, &[])
}

/// Runs Cargo like [`cargo`], with additional environment variables.
pub(crate) fn cargo_with(args: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let status = command(args)
        .envs(environment.iter().copied())
        .status()
        .context("cargo not started")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Runs Cargo and returns its standard output.
pub(crate) fn cargo_output(args: &[&str]) -> anyhow::Result<String> {
    output(command(args), &format!("cargo {}", args.join(" ")))
}

/// Returns the files of the checkout that Git tracks or would add.
pub(crate) fn tracked() -> anyhow::Result<Vec<String>> {
    let files = output_of(
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let files = files.lines().filter(|file| root().join(file).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// Runs a program in the root of the checkout and returns its standard output.
pub(crate) fn output_of(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    output(command, &format!("{program} {}", args.join(" ")))
}

fn output(mut command: Command, name: &str) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{name}: not started"))?;
    ensure!(output.status.success(), "{name} failed");
    Ok(String::from_utf8(output.stdout)?)
}

fn command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// Builds the compute-federation binary and returns its path.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--locked", "--package", "compute-federation"])?;
    Ok(target().join("debug/compute-federation"))
}
