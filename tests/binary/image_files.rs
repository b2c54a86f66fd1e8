//! Runs the binary with nothing but the files of the container image.

use std::fs;
use std::path::Path;
use std::process::Output;

use image::archive::tar;
use image::{Architecture, libraries, rootfs, trial};
use tempfile::TempDir;

/// Unpacks an image of the binary. Returns its directory, and the paths of the libraries in the image.
fn unpacked() -> (TempDir, Vec<String>) {
    let architecture = Architecture::of_host().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_compute-federation"));
    let libraries = libraries::of_binary(binary, architecture, &[]).unwrap();
    libraries::check(&libraries, architecture).unwrap();
    // The content of the certificates is not used here, so the test does not depend on the host's.
    let certificates = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    let files = rootfs::files(fs::read(binary).unwrap(), &libraries, certificates).unwrap();
    let directory = TempDir::new().unwrap();
    rootfs::unpack(&tar(&files, 0).unwrap(), directory.path()).unwrap();
    let paths = libraries.into_iter().map(|library| library.path);
    (directory, paths.collect())
}

/// Runs the binary. While another test starts a process, this process has a copy of the file that `unpacked` wrote, and
/// the kernel refuses to run the binary.
fn run(root: &Path) -> Option<Output> {
    loop {
        let output = trial::run(root, &["--version"]).unwrap()?;
        if !String::from_utf8_lossy(&output.stderr).contains("Text file busy") {
            return Some(output);
        }
    }
}

#[test]
fn the_binary_runs_with_nothing_but_the_files_of_the_image() {
    let (root, libraries) = unpacked();
    let Some(output) = run(root.path()) else {
        println!("skipped: this user may neither call chroot nor create user namespaces");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        text,
        concat!("compute-federation ", env!("CARGO_PKG_VERSION"), "\n"),
        "{output:?}"
    );
    // Each library is needed. This also shows that the libraries of the host are not found.
    for library in libraries {
        let path = root.path().join(library.trim_start_matches('/'));
        let elsewhere = path.with_extension("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        let output = run(root.path()).unwrap();
        assert!(!output.status.success(), "{library}");
        fs::rename(&elsewhere, &path).unwrap();
    }
}
