//! Builds the Go modules in `tests/tools`. The results are cached outside the checkout.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::Hash;
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

/// Builds the programs that `directory` does not contain, from the module `tests/tools`. `programs` lists names and
/// packages.
pub(crate) fn build(
    directory: &Path,
    programs: &[(&str, &str)],
    flags: &str,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    Module::at("").build(directory, programs, &["-ldflags", flags], progress)
}

/// A Go module below `tests/tools`.
pub(crate) struct Module {
    directory: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Module {
    /// Returns the module in this folder of `tests/tools`. Its programs are built without cgo.
    pub(crate) fn at(folder: &str) -> Self {
        Self {
            directory: tools().join(folder),
            environment: vec![("CGO_ENABLED", "0".into())],
        }
    }

    /// Returns the same module, built with cgo and these environment variables.
    pub(crate) fn with_cgo(mut self, environment: Vec<(&'static str, OsString)>) -> Self {
        self.environment = environment;
        self.environment.push(("CGO_ENABLED", "1".into()));
        self
    }

    /// Builds the programs that `directory` does not contain. `programs` lists names and packages. A name may contain a
    /// folder.
    pub(crate) fn build(
        &self,
        directory: &Path,
        programs: &[(&str, &str)],
        flags: &[&str],
        progress: &mut impl FnMut(&str),
    ) -> anyhow::Result<()> {
        for (index, (name, package)) in programs.iter().enumerate() {
            let program = directory.join(name);
            if program.exists() {
                continue;
            }
            progress(&format!(
                "building {name} ({} of {})",
                index + 1,
                programs.len()
            ));
            let begin = Instant::now();
            let folder = program.parent().context("the program has no folder")?;
            fs::create_dir_all(folder)?;
            // The program is renamed only after its build. An interrupted build therefore does not look complete.
            let unfinished = folder.join(".unfinished");
            let output = unfinished
                .to_str()
                .context("the path of the cache is not UTF-8")?;
            self.run(&[&["build", "-trimpath", "-o", output], flags, &[package]].concat())?;
            fs::rename(&unfinished, program)?;
            progress(&format!("built {name} in {} s", begin.elapsed().as_secs()));
        }
        Ok(())
    }

    /// Returns the directory of the sources of a dependency.
    pub(crate) fn sources(&self, dependency: &str) -> anyhow::Result<PathBuf> {
        self.run(&["mod", "download", dependency])?;
        Ok(self.list(dependency, "{{.Dir}}")?.into())
    }

    /// Returns the version of a dependency.
    pub(crate) fn version_of(&self, dependency: &str) -> anyhow::Result<String> {
        self.list(dependency, "{{.Version}}")
    }

    fn list(&self, dependency: &str, format: &str) -> anyhow::Result<String> {
        self.run(&["list", "-m", "-f", format, dependency])
    }

    /// Runs Go in the module. Returns the standard output.
    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("go")
            .args(args)
            .current_dir(&self.directory)
            .env("GOFLAGS", "-buildvcs=false -mod=readonly")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
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

    /// Hashes the module's files and sources, in the order of their names. Does not enter nested modules.
    pub(crate) fn hash_sources(&self, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
        hash_folder(&self.directory, hasher)
    }
}

fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if !path.is_dir() {
            path.file_name().hash(hasher);
            fs::read(&path)
                .with_context(|| path.display().to_string())?
                .hash(hasher);
        } else if !path.join("go.mod").exists() {
            hash_folder(&path, hasher)?;
        }
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
    Module::at("").run(args)
}
