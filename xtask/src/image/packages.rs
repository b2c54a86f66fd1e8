//! The packages in the image, for the software bill of materials.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use harness::checkout::root;
use image::libraries::Library;
use image::sbom::{self, Package, Part};
use image::{Architecture, oci};

use crate::build::{cargo_output, output_of};

pub(super) fn of_image(
    architecture: Architecture,
    libraries: &[Library],
    ca_certificates: &[u8],
) -> anyhow::Result<Vec<Package>> {
    let mut packages = linked(architecture)?;
    for library in libraries {
        packages.push(loaded(library, architecture)?);
    }
    packages.push(Package {
        part: Part::Data,
        name: "ca-certificates".to_owned(),
        version: None,
        license: None,
        sha256: Some(oci::sha256(ca_certificates)),
        purl: None,
    });
    Ok(packages)
}

fn linked(architecture: Architecture) -> anyhow::Result<Vec<Package>> {
    let tree = cargo_output(&[
        "tree",
        "--locked",
        "--package",
        "compute-federation",
        "--edges",
        "normal,no-proc-macro",
        "--target",
        architecture.target(),
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        sbom::TREE_FORMAT,
    ])?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    let rustc = output_of("rustc", &["-vV"])?;
    let rustc = rustc
        .lines()
        .find_map(|line| line.strip_prefix("release: "));
    Ok(sbom::linked(
        &tree,
        &lock,
        rustc.context("rustc -vV: no release")?,
    )?)
}

fn loaded(library: &Library, architecture: Architecture) -> anyhow::Result<Package> {
    let content = fs::read(&library.source);
    let content = content.with_context(|| library.source.display().to_string())?;
    let debian = debian_package(&library.source);
    let purl = debian.as_ref().map(|(package, version)| {
        let version = version.replace('+', "%2B").replace(':', "%3A");
        format!("pkg:deb/debian/{package}@{version}?arch={architecture}")
    });
    Ok(Package {
        part: Part::Loaded,
        name: library.name.clone(),
        version: debian.map(|(_, version)| version),
        license: None,
        sha256: Some(oci::sha256(&content)),
        purl,
    })
}

/// Returns the name and the version of the Debian package that installed a file. Returns `None` on other distributions,
/// and for files that no package installed.
fn debian_package(path: &Path) -> Option<(String, String)> {
    let release = fs::read_to_string("/etc/os-release").ok()?;
    release.lines().find(|line| *line == "ID=debian")?;
    let path = path.to_str()?;
    // The database knows a file by the path in its package. A package may still use /lib for /usr/lib.
    let paths = [path.to_owned(), format!("/usr{path}")];
    let owner = paths.iter().find_map(|path| query(&["--search", path]))?;
    let package = owner.split_once(": ")?.0.to_owned();
    let version = query(&["--show", "--showformat=${Version}", &package])?;
    let name = package.split(':').next()?;
    Some((name.to_owned(), version.trim().to_owned()))
}

fn query(args: &[&str]) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    let output = command.args(args).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn linked_packages_are_those_in_the_binary() {
        for architecture in Architecture::ALL {
            let packages = linked(architecture).unwrap();
            let names: BTreeSet<_> = packages.iter().map(|it| it.name.as_str()).collect();
            // C code, a dependency of a dependency, and the standard library.
            for name in ["aws-lc-sys", "hyper", "libmimalloc-sys", "rust-std"] {
                assert!(names.contains(name), "{architecture}: {name} is missing");
            }
            // A procedural macro, a dependency of build scripts, a dependency of tests, a crate for Windows, our crate.
            for name in [
                "clap_derive",
                "cc",
                "libtest-mimic",
                "windows-sys",
                "webhooks",
            ] {
                assert!(
                    !names.contains(name),
                    "{architecture}: {name} is not linked"
                );
            }
            for package in packages {
                assert!(package.license.is_some(), "{}", package.name);
            }
        }
    }
}
