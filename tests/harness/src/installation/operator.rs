//! An operator who follows the documentation: a directory with the operator's files, and a shell.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::checkout;
use crate::peers::Peers;

/// The directory and the shell of an operator.
pub struct Operator {
    directory: PathBuf,
    path: OsString,
    /// Shell functions that precede all commands.
    functions: String,
}

impl Operator {
    /// Lets the operator use this directory. It gets a link `compute-federation` to the checkout. `functions` precede
    /// all commands.
    pub(super) fn new(directory: PathBuf, peers: &Peers, functions: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let checkout = checkout::root().canonicalize()?;
        symlink(checkout, directory.join("compute-federation"))?;
        let kubectl = peers.program("kubectl");
        let folder = kubectl.parent().context("kubectl has no folder")?;
        let inherited = env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter();
        Ok(Self {
            path: env::join_paths(folders.chain(env::split_paths(&inherited)))?,
            directory,
            functions: functions.to_owned(),
        })
    }

    /// Returns the path of a file of the operator.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Writes a file of the operator.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap_or(&self.directory))?;
        fs::write(&file, text).with_context(|| file.display().to_string())
    }

    /// Runs commands of the shell, and returns their output.
    ///
    /// # Errors
    ///
    /// When a command fails. The error contains the commands and their messages.
    pub async fn run(&self, commands: &str) -> anyhow::Result<String> {
        let script = format!("set -euo pipefail\n{}\n{commands}", self.functions);
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(&self.directory)
            .env("PATH", &self.path)
            // Clusters of other test runs may have had the same address and other kinds.
            .env("KUBECACHEDIR", self.file(".kubectl-cache"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let error = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{commands}\n{text}{error}");
        Ok(text.into_owned())
    }
}
