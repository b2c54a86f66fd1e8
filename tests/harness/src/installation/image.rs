//! The container image of the binary under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use image::container::{Facts, Image};
use image::{Architecture, libraries, rootfs};

/// The image that the documentation deploys.
const IMAGE: &str = "ghcr.io/datum-cloud/compute:v1.2.3";

/// Writes the image of a binary as an archive, as `cargo xtask image` does. Returns the path of the archive.
pub(super) fn write(source: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let architecture = Architecture::of_host().context("a node needs amd64 or arm64")?;
    // Without debug information, the binary is a fifth as large.
    let binary = directory.join("compute-federation");
    let status = Command::new("strip")
        .arg("--strip-debug")
        .arg("-o")
        .args([&binary, source])
        .status();
    ensure!(status.context("strip")?.success(), "strip failed");
    let libraries = libraries::of_binary(&binary, architecture, &[])?;
    libraries::check(&libraries, architecture)?;
    // All kubeconfigs of the tests contain their CA.
    let certificates = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    let files = rootfs::files(fs::read(&binary)?, &libraries, certificates)?;
    let facts = Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: "of-the-harness".to_owned(),
        source: "https://example.com/compute".to_owned(),
        time: 0,
    };
    let image = Image::new(&files, architecture, IMAGE.parse()?, facts)?;
    let archive = directory.join("compute.tar");
    fs::write(&archive, image.archive()?)?;
    fs::remove_file(binary)?;
    Ok(archive)
}
