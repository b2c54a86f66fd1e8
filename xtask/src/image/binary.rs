//! The binary of the image: a release build without debug information.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, ensure};
use harness::checkout::root;
use image::Architecture;

use crate::build::{cargo_with, output_of, target};

/// Builds the binary for an architecture and returns its path. The build is separate from other release builds, because
/// its environment keeps the directories and the time of this machine out of the binary. So two checkouts give equal
/// binaries.
pub(super) fn build(architecture: Architecture) -> anyhow::Result<PathBuf> {
    let triple = architecture.target();
    let libraries = output_of("rustc", &["--print", "target-libdir", "--target", triple])?;
    ensure!(
        Path::new(libraries.trim()).is_dir(),
        "the Rust target {triple} is not installed; run `rustup target add {triple}`"
    );
    let environment = environment(architecture, &directories()?);
    // A linker that the user has chosen stays.
    let kept = environment
        .iter()
        .filter(|(name, _)| !(name.ends_with("_LINKER") && env::var_os(name).is_some()));
    let kept: Vec<_> = kept
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let args = [
        "build",
        "--locked",
        "--release",
        "--package",
        "compute-federation",
        "--target",
        triple,
    ];
    cargo_with(&args, &kept)?;
    Ok(target().join(triple).join("release/compute-federation"))
}

/// Returns environment variables of Cargo. `directories` are directories and their replacements in the binary.
fn environment(
    architecture: Architecture,
    directories: &[(String, String)],
) -> Vec<(String, String)> {
    let flags = |flag: &str, separator: &str| {
        let flags = directories
            .iter()
            .map(|(from, to)| format!("{flag}={from}={to}"));
        flags.collect::<Vec<_>>().join(separator)
    };
    let variable = architecture.target().replace('-', "_");
    let rust = flags("--remap-path-prefix", "\x1f");
    let mut environment = vec![
        ("CARGO_ENCODED_RUSTFLAGS".to_owned(), rust),
        (
            format!("CFLAGS_{variable}"),
            flags("-ffile-prefix-map", " "),
        ),
        // C compilers use this time where C code asks for the time of the build, as mimalloc does. The time is
        // constant, because Cargo does not compile C code again if the variable changes.
        ("SOURCE_DATE_EPOCH".to_owned(), "0".to_owned()),
    ];
    if Some(architecture) != Architecture::of_host() {
        let name = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
        environment.push((name, format!("{}-gcc", architecture.triplet())));
    }
    environment
}

/// Returns the directories of this machine that the compilers would write into the binary, and their replacements.
fn directories() -> anyhow::Result<Vec<(String, String)>> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let cargo = cargo.context("neither CARGO_HOME nor HOME is set")?;
    // If the sources of the standard library are installed, the compiler replaces its own prefix by their directory.
    let version = output_of("rustc", &["-vV"])?;
    let commit = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "));
    let commit = commit.context("rustc -vV: no commit-hash")?;
    let directories = [
        // The last match wins, so the other directories may be inside the checkout.
        (root(), "/compute-federation".to_owned()),
        (target(), "/target".to_owned()),
        (cargo, "/cargo".to_owned()),
        (
            sysroot()?.join("lib/rustlib/src/rust"),
            format!("/rustc/{commit}"),
        ),
    ];
    Ok(directories
        .into_iter()
        .map(|(path, to)| (path.display().to_string(), to))
        .collect())
}

fn sysroot() -> anyhow::Result<PathBuf> {
    let path = output_of("rustc", &["--print", "sysroot"])?;
    Ok(PathBuf::from(path.trim()))
}

/// Returns the binary without debug information. The names of functions stay, for backtraces. `directory` is for
/// temporary files.
pub(super) fn without_debug_information(
    binary: &Path,
    directory: &Path,
) -> anyhow::Result<Vec<u8>> {
    let sysroot = sysroot()?;
    // The program is a part of the Rust toolchain, and it handles all architectures.
    let host = Architecture::of_host().context("this machine is neither amd64 nor arm64")?;
    let program = sysroot.join(format!("lib/rustlib/{}/bin/rust-objcopy", host.target()));
    let stripped = directory.join("stripped");
    let status = Command::new(&program)
        .env("LD_LIBRARY_PATH", sysroot.join("lib"))
        .arg("--strip-debug")
        .args([binary, &stripped])
        .status();
    let status = status.with_context(|| program.display().to_string())?;
    ensure!(status.success(), "{} failed", program.display());
    Ok(fs::read(&stripped)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_has_no_directory_and_no_time_of_this_machine() {
        let directories = [
            ("/home/me/src".to_owned(), "/compute-federation".to_owned()),
            ("/home/me/.cargo".to_owned(), "/cargo".to_owned()),
        ];
        let environment = environment(Architecture::Arm64, &directories);
        let value = |name: &str| {
            let found = environment.iter().find(|it| it.0 == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(
            value("CARGO_ENCODED_RUSTFLAGS"),
            Some(
                "--remap-path-prefix=/home/me/src=/compute-federation\x1f\
                 --remap-path-prefix=/home/me/.cargo=/cargo"
            )
        );
        assert_eq!(
            value("CFLAGS_aarch64_unknown_linux_gnu"),
            Some(
                "-ffile-prefix-map=/home/me/src=/compute-federation \
                 -ffile-prefix-map=/home/me/.cargo=/cargo"
            )
        );
        assert_eq!(value("SOURCE_DATE_EPOCH"), Some("0"));
    }

    #[test]
    fn debug_information_is_removed() {
        let this = env::current_exe().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let stripped = without_debug_information(&this, directory.path()).unwrap();
        let has = |content: &[u8], section: &str| {
            // The name in one piece would be in this program.
            let name = ["\0.", section, "\0"].concat();
            let mut windows = content.windows(name.len());
            windows.any(|it| it == name.as_bytes())
        };
        assert!(has(&fs::read(&this).unwrap(), "debug_info"));
        assert!(has(&stripped, "symtab"));
        assert!(!has(&stripped, "debug_info"));
        assert!(stripped.len() < fs::metadata(&this).unwrap().len().try_into().unwrap());
    }
}
