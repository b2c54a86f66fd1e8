//! The binary of the image: a release build without debug information.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, ensure};
use harness::checkout::root;
use image::Architecture;

use crate::build::{cargo_with, output_of, target};

/// Builds the binary for an architecture and returns its path. The build is separate from other release builds, because
/// its compiler flags replace the directories of this machine in the binary. So two checkouts give equal binaries.
pub(super) fn build(architecture: Architecture) -> anyhow::Result<PathBuf> {
    let triple = architecture.target();
    let libraries = output_of("rustc", &["--print", "target-libdir", "--target", triple])?;
    ensure!(
        Path::new(libraries.trim()).is_dir(),
        "the Rust target {triple} is not installed; run `rustup target add {triple}`"
    );
    let directories = directories()?;
    let flags = |flag: &str| {
        let flags = directories
            .iter()
            .map(|(from, to)| format!("{flag}={from}={to}"));
        flags.collect::<Vec<_>>()
    };
    let rust = flags("--remap-path-prefix").join("\x1f");
    let c = flags("-ffile-prefix-map").join(" ");
    let variable = triple.replace('-', "_");
    let c_variable = format!("CFLAGS_{variable}");
    let linker_variable = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    let mut environment = vec![
        ("CARGO_ENCODED_RUSTFLAGS", rust.as_str()),
        (&c_variable, &c),
    ];
    let linker = format!("{}-gcc", architecture.triplet());
    if Some(architecture) != Architecture::of_host() && env::var_os(&linker_variable).is_none() {
        environment.push((&linker_variable, &linker));
    }
    let args = [
        "build",
        "--locked",
        "--release",
        "--package",
        "compute-federation",
        "--target",
        triple,
    ];
    cargo_with(&args, &environment)?;
    Ok(target().join(triple).join("release/compute-federation"))
}

/// Returns the directories of this machine that the compilers would write into the binary, and their replacements.
fn directories() -> anyhow::Result<Vec<(String, &'static str)>> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let cargo = cargo.context("neither CARGO_HOME nor HOME is set")?;
    let directories = [
        // The last match wins, so the target directory may be inside the checkout.
        (root(), "/compute-federation"),
        (target(), "/target"),
        (cargo, "/cargo"),
    ];
    Ok(directories
        .into_iter()
        .map(|(path, to)| (path.display().to_string(), to))
        .collect())
}

/// Returns the binary without debug information. The names of functions stay, for backtraces.
pub(super) fn without_debug_information(binary: &Path) -> anyhow::Result<Vec<u8>> {
    let sysroot = PathBuf::from(output_of("rustc", &["--print", "sysroot"])?.trim());
    // The program is a part of the Rust toolchain, and it handles all architectures.
    let host = Architecture::of_host().context("this machine is neither amd64 nor arm64")?;
    let program = sysroot.join(format!("lib/rustlib/{}/bin/rust-objcopy", host.target()));
    let directory = tempfile::tempdir()?;
    let stripped = directory.path().join("manager");
    let status = Command::new(&program)
        .env("LD_LIBRARY_PATH", sysroot.join("lib"))
        .arg("--strip-debug")
        .args([binary, &stripped])
        .status();
    let status = status.with_context(|| program.display().to_string())?;
    ensure!(status.success(), "{} failed", program.display());
    Ok(fs::read(&stripped)?)
}
