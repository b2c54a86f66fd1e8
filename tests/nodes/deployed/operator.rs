//! An operator who follows the documentation: a directory with the operator's files, and a shell.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use harness::checkout;
use harness::peers::Peers;
use tempfile::TempDir;
use tokio::process::Command;

/// The directory and the shell of an operator.
pub(super) struct Operator {
    directory: TempDir,
    path: OsString,
    /// Shell functions that precede all commands.
    functions: String,
}

impl Operator {
    /// Creates the directory with the checkout `compute-federation`. `functions` precede all commands.
    pub(super) fn new(peers: &Peers, functions: &str) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let checkout = checkout::root().canonicalize()?;
        symlink(checkout, directory.path().join("compute-federation"))?;
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
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of the operator.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
        fs::write(&file, text).with_context(|| file.display().to_string())
    }

    /// Runs commands, and returns their output.
    ///
    /// # Errors
    ///
    /// When a command fails. The error contains the commands and their messages.
    pub(super) async fn run(&self, commands: &str) -> anyhow::Result<String> {
        let script = format!("set -euo pipefail\n{}\n{commands}", self.functions);
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(self.directory.path())
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
