//! Installs cargo-deny, which the gate needs, and mdBook, which builds the book. Each version is built once and stays
//! in the cache directory of the user.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::Context;

use crate::build::cargo;
use crate::output::tell;

/// Returns the path of cargo-deny. It checks licences, sources and versions of the dependencies. Its advisories are not
/// used, because they need the network.
pub(crate) fn cargo_deny() -> anyhow::Result<PathBuf> {
    installed("cargo-deny", "0.20.2")
}

/// Returns the path of mdBook. It builds a book from `docs`.
pub(crate) fn mdbook() -> anyhow::Result<PathBuf> {
    installed("mdbook", "0.5.4")
}

/// Returns the path of the program that this version of the crate installs. If the cache does not contain the program,
/// installs it there first.
fn installed(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let directory = cache()?.join("tools").join(format!("{name}-{version}"));
    let program = directory.join("bin").join(name);
    if !program.is_file() {
        tell(format!("installing {name} {version}; later runs reuse it"));
        // The build has its own target directory. It is needed only until the program is installed.
        let build = directory.join("build");
        let [root, target] = [&directory, &build].map(|path| path.display().to_string());
        // A debug build takes half of the time of a release build, and the program is fast enough.
        cargo(&[
            "install",
            name,
            "--version",
            version,
            "--locked",
            "--debug",
            "--no-default-features",
            "--root",
            &root,
            "--target-dir",
            &target,
        ])?;
        fs::remove_dir_all(&build).with_context(|| target)?;
    }
    Ok(program)
}

/// Returns the cache directory: `$XDG_CACHE_HOME/compute-federation`, or `$HOME/.cache/compute-federation` if
/// `XDG_CACHE_HOME` is unset or empty.
fn cache() -> anyhow::Result<PathBuf> {
    let of_user = env::var_os("XDG_CACHE_HOME")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let of_user = of_user.context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(of_user.join("compute-federation"))
}
