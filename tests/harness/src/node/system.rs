//! Runs short programs of the system.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, ensure};

/// Runs a program and waits for it. Returns its standard output.
///
/// # Errors
///
/// When the program does not exist or fails. The error contains its standard error.
pub(crate) fn run(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> anyhow::Result<String> {
    output(Command::new(program).args(args))
}

/// Like [`run`], for a command with more settings.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let described = described(command);
    let output = command
        .output()
        .with_context(|| format!("{described}: not started"))?;
    ensure!(
        output.status.success(),
        "{described}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn described(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
