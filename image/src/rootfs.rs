//! The files of the container image.
//!
//! The image has no shell and no `/tmp`: the process writes no files, and a container runtime creates the directories
//! at which it mounts volumes.

use std::fs;
use std::path::Path;

use crate::archive::{File, FileTree};
use crate::libraries::{LIBRARIES, Library};
use crate::{Architecture, Error};

/// The path of the binary. The Deployments of the Go manager name it too.
pub const BINARY: &str = "/manager";
/// The path of the CA certificates. It is the first path at which the binary looks for them.
pub const CA_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// User and group of the process. `passwd` and `group` name them.
pub const USER: &str = "65532:65532";

/// Files whose content does not depend on the build host. Without `nsswitch.conf`, glibc would not read `/etc/hosts`
/// first, so `hostAliases` of a Pod could be without effect.
const FIXED: [(&str, &str); 3] = [
    ("/etc/group", include_str!("../rootfs/etc/group")),
    (
        "/etc/nsswitch.conf",
        include_str!("../rootfs/etc/nsswitch.conf"),
    ),
    ("/etc/passwd", include_str!("../rootfs/etc/passwd")),
];

/// Returns the files of the image.
///
/// # Errors
/// Fails if a library cannot be read, or if the CA certificates contain no certificate.
pub fn files(
    binary: Vec<u8>,
    libraries: &[Library],
    ca_certificates: Vec<u8>,
) -> Result<FileTree, Error> {
    let marker = b"-----BEGIN CERTIFICATE-----";
    if !ca_certificates.windows(marker.len()).any(|it| it == marker) {
        return Err(Error::Invalid(
            "the CA certificates: contain no certificate in PEM; name another file with --ca-certificates"
                .to_owned(),
        ));
    }
    let data = |content| File {
        mode: 0o644,
        content,
    };
    let program = |content| File {
        mode: 0o755,
        content,
    };
    let mut files = FileTree::new();
    let mut add = |path: &str, file| files.insert(path.trim_start_matches('/').to_owned(), file);
    add(BINARY, program(binary));
    add(CA_CERTIFICATES, data(ca_certificates));
    for (path, content) in FIXED {
        add(path, data(content.as_bytes().to_vec()));
    }
    for library in libraries {
        let content = fs::read(&library.source).map_err(Error::file(&library.source))?;
        add(&library.path, program(content));
    }
    Ok(files)
}

/// Returns the paths of the files in an image that is built on Debian, sorted. `Dockerfile` copies the same files.
pub fn paths(architecture: Architecture) -> Vec<String> {
    let libraries = LIBRARIES.map(|name| format!("/lib/{}/{name}", architecture.triplet()));
    let mut paths = [BINARY, CA_CERTIFICATES, architecture.loader()]
        .into_iter()
        .chain(FIXED.map(|(path, _)| path))
        .map(str::to_owned)
        .chain(libraries)
        .collect::<Vec<_>>();
    paths.sort();
    paths
}

/// Writes the files below a directory, as a container runtime unpacks them.
///
/// # Errors
/// Fails if the archive is damaged or a file cannot be written.
pub fn unpack(layer: &[u8], directory: &Path) -> Result<(), Error> {
    let mut archive = tar::Archive::new(layer);
    archive.set_preserve_permissions(true);
    archive.unpack(directory).map_err(Error::file(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\n";

    fn libraries(architecture: Architecture) -> (tempfile::TempDir, Vec<Library>) {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("library");
        fs::write(&source, "library").unwrap();
        let library = |path: String| Library {
            name: String::new(),
            source: source.clone(),
            path,
        };
        let paths = LIBRARIES.map(|name| format!("/lib/{}/{name}", architecture.triplet()));
        let paths = paths.into_iter().chain([architecture.loader().to_owned()]);
        let libraries = paths.map(library).collect();
        (folder, libraries)
    }

    #[test]
    fn the_files_are_those_of_the_list() {
        for architecture in Architecture::ALL {
            let (_folder, libraries) = libraries(architecture);
            let files = files(b"binary".to_vec(), &libraries, CERTIFICATE.to_vec()).unwrap();
            let found: Vec<_> = files.keys().map(|path| format!("/{path}")).collect();
            assert_eq!(found, paths(architecture));
            assert_eq!(files["manager"].mode, 0o755);
            assert_eq!(files["etc/passwd"].mode, 0o644);
        }
    }

    #[test]
    fn the_user_has_a_name() {
        let (user, group) = USER.split_once(':').unwrap();
        let text = |path: &str| FIXED.iter().find(|it| it.0 == path).unwrap().1;
        assert!(text("/etc/passwd").contains(&format!("nonroot:x:{user}:{group}:")));
        assert!(text("/etc/group").contains(&format!("nonroot:x:{group}:")));
    }

    #[test]
    fn certificates_must_be_certificates() {
        let error = files(Vec::new(), &[], b"none".to_vec())
            .unwrap_err()
            .to_string();
        assert!(error.contains("--ca-certificates"), "{error}");
    }
}
