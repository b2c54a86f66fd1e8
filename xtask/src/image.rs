//! `cargo xtask image`: writes the container image, without a container engine.

mod binary;
mod packages;
pub(crate) mod provenance;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use image::archive::FileTree;
use image::container::Image;
use image::{Architecture, Reference, libraries, oci, rootfs, sbom, trial};
use serde_json::Value;

use crate::build::target;
use crate::output::{print, tell};
use provenance::Provenance;

/// Maximum size of all files of the image, before compression: a node stores them uncompressed.
const LIMIT: usize = 40 << 20;

/// Writes the container image as an OCI layout and as an archive.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory for the results. Default: image in Cargo's target directory.
    #[arg(long)]
    output: Option<PathBuf>,
    /// The name and the tag of the image. Default: ghcr.io/datum-cloud/compute and the version of the project.
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<Reference>,
    /// amd64 or arm64. Default: the architecture of this machine.
    #[arg(long)]
    arch: Option<Architecture>,
    /// Use this binary instead of a release build.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The CA certificates of the image.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/etc/ssl/certs/ca-certificates.crt"
    )]
    ca_certificates: PathBuf,
    /// Search this directory for shared libraries first. Can be repeated.
    #[arg(long, value_name = "DIRECTORY")]
    library_path: Vec<PathBuf>,
    #[command(flatten)]
    provenance: Provenance,
    /// Write nothing: print the paths of the files in the image.
    #[arg(long)]
    files: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let architecture = args.arch.or_else(Architecture::of_host);
    let architecture =
        architecture.context("this machine is neither amd64 nor arm64; use --arch")?;
    if args.files {
        return rootfs::paths(architecture).into_iter().try_for_each(print);
    }
    let reference = match &args.tag {
        Some(reference) => reference.clone(),
        None => provenance::default_reference(provenance::IMAGE)?,
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| target().join("image"));
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => binary::build(architecture)?,
    };
    let facts = args.provenance.facts()?;
    let libraries = libraries::of_binary(&binary, architecture, &args.library_path)?;
    libraries::check(&libraries, architecture)?;
    let ca_certificates = fs::read(&args.ca_certificates)
        .with_context(|| format!("--ca-certificates={}", args.ca_certificates.display()))?;
    let temporary = output.join("temporary");
    clear(&temporary)?;
    fs::create_dir_all(&temporary).with_context(|| temporary.display().to_string())?;
    let binary = binary::without_debug_information(&binary, &temporary)?;
    let packages = packages::of_image(architecture, &libraries, &ca_certificates)?;
    let document = sbom::document(&reference, &facts, &oci::sha256(&binary), &packages)?;
    let files = rootfs::files(binary, &libraries, ca_certificates)?;
    check_size(&files)?;
    let mut image = Image::new(&files, architecture, reference.clone(), facts)?;
    image.attach(&document)?;
    try_out(&image, architecture, &temporary.join("root"))?;
    clear(&temporary)?;
    write(&image, &document, &output, architecture)?;
    print(format!("{reference}@{}", image.digest()))
}

/// Removes a directory, if it exists.
fn clear(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| directory.display().to_string())
        }
        _ => Ok(()),
    }
}

fn check_size(files: &FileTree) -> anyhow::Result<()> {
    let size: usize = files.values().map(|file| file.content.len()).sum();
    ensure!(
        size <= LIMIT,
        "the files of the image have {:.1} MiB, more than {}",
        mebibytes(size),
        LIMIT >> 20
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a size is below 2^53")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs the binary with nothing but the files of the image, which are unpacked into `root`. A library that is missing
/// ends the command.
fn try_out(image: &Image, architecture: Architecture, root: &Path) -> anyhow::Result<()> {
    if Some(architecture) != Architecture::of_host() {
        tell(format!("not tried: this machine is not {architecture}"));
        return Ok(());
    }
    rootfs::unpack(&image.layer, root)?;
    let Some(output) = trial::run(root, &["--version"])? else {
        tell("not tried: this user may neither call chroot nor create user namespaces");
        return Ok(());
    };
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!(
            "the binary does not run in the image: {}: {error}",
            output.status
        );
    }
    Ok(())
}

fn write(
    image: &Image,
    document: &Value,
    output: &Path,
    architecture: Architecture,
) -> anyhow::Result<()> {
    fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    let layout = output.join(format!("oci-{architecture}"));
    image.layout().write(&layout)?;
    print(layout.display())?;
    let archive = image.archive()?;
    let document = format!("{document:#}\n").into_bytes();
    for (extension, content) in [("tar", archive), ("spdx.json", document)] {
        let path = output.join(format!("compute-{architecture}.{extension}"));
        let size = mebibytes(content.len());
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        print(format!("{} ({size:.1} MiB)", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use image::archive::File;

    use super::*;

    #[test]
    fn an_image_above_the_limit_is_refused() {
        let files = |size| {
            let content = vec![0; size];
            FileTree::from([(
                "manager".to_owned(),
                File {
                    mode: 0o755,
                    content,
                },
            )])
        };
        check_size(&files(LIMIT)).unwrap();
        let error = check_size(&files(LIMIT + 1)).unwrap_err().to_string();
        assert!(error.contains("more than 40"), "{error}");
    }
}
