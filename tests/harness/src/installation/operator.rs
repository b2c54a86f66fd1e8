//! An operator who follows the documentation: a directory with the operator's files, and a shell.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::checkout;
use crate::peers::Peers;
use crate::process::{ChildProcess, Program};

/// The directory and the shell of an operator.
pub struct Operator {
    directory: PathBuf,
    path: OsString,
    /// Shell functions that precede all commands.
    functions: String,
}

impl Operator {
    /// Lets the operator use this directory. It gets a link `compute-federation` to the checkout. `functions` precede
    /// all commands. The commands find kubectl and the binary.
    pub(super) fn new(
        directory: PathBuf,
        peers: &Peers,
        binary: &Path,
        functions: &str,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let checkout = checkout::root().canonicalize()?;
        symlink(checkout, directory.join("compute-federation"))?;
        let kubectl = peers.program("kubectl");
        let programs = [kubectl.as_path(), binary];
        let folders = programs.iter().filter_map(|program| program.parent());
        let inherited = env::var_os("PATH").unwrap_or_default();
        let inherited = env::split_paths(&inherited);
        Ok(Self {
            path: env::join_paths(folders.map(Path::to_owned).chain(inherited))?,
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

    /// Starts a program with a command. The program ends with the returned process.
    ///
    /// # Errors
    ///
    /// When the shell cannot be started.
    pub(super) async fn start(&self, name: &str, command: &str) -> anyhow::Result<ChildProcess> {
        let directory = self.directory.display();
        let path = self.path.to_string_lossy();
        let script = format!("cd '{directory}' && PATH='{path}' exec {command}");
        ChildProcess::start(Program {
            name,
            path: "bash".into(),
            args: vec!["-c".into(), script.into()],
            logs: &self.directory,
            remove: None,
        })
        .await
    }
}
