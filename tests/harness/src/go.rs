//! Builds the Go module in `tests/tools`. The results are cached outside the checkout.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use tokio::time::Instant;

use crate::checkout;

/// The build cache while it is locked. Only one process at a time may fill the cache.
pub(crate) struct BuildCache {
    directory: PathBuf,
    _lock: File,
}

impl BuildCache {
    /// Locks the cache. Blocks while another process builds.
    pub(crate) fn lock() -> anyhow::Result<Self> {
        let directory = cache_directory()?;
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let lock = File::create(directory.join("peers.lock"))?;
        lock.lock()?;
        Ok(Self {
            directory,
            _lock: lock,
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Builds the programs that `directory` does not contain. `programs` lists names and packages.
pub(crate) fn build(
    directory: &Path,
    programs: &[(&str, &str)],
    flags: &str,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    for (index, (name, package)) in programs.iter().enumerate() {
        if directory.join(name).exists() {
            continue;
        }
        progress(&format!(
            "building {name} ({} of {})",
            index + 1,
            programs.len()
        ));
        let begin = Instant::now();
        // The program is renamed only after its build. An interrupted build therefore does not look complete.
        let unfinished = directory.join(format!(".{name}"));
        let output = unfinished
            .to_str()
            .context("the path of the cache is not UTF-8")?;
        run(&[
            "build",
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            output,
            package,
        ])?;
        fs::rename(&unfinished, directory.join(name))?;
        progress(&format!("built {name} in {} s", begin.elapsed().as_secs()));
    }
    Ok(())
}

/// Returns the directory of the Go module.
pub(crate) fn tools() -> PathBuf {
    checkout::root().join("tests/tools")
}

/// Returns the folder of this project in `XDG_CACHE_HOME`. If that variable is unset, the folder is in `~/.cache`.
fn cache_directory() -> anyhow::Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(cache
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("compute-federation"))
}

/// Runs Go in the module `tests/tools`. Returns the standard output.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("go")
        .args(args)
        .current_dir(tools())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .output()
        .context("go is needed to build the external programs; install it, or set COMPUTE_FEDERATION_PEERS")?;
    if !output.status.success() {
        bail!(
            "go {} failed:\n{}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
