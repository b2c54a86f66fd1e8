//! Finds the shared libraries that a binary needs.
//!
//! The names come from the ELF files (`DT_NEEDED`) and not from `ldd`. `ldd` runs the loader of the host, so it fails
//! for the binary of another architecture, and it lists the vDSO, which is no file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::{Architecture, Error};

/// The libraries that the binary needs, and nothing else. If the binary needs another one, change this list and
/// `Dockerfile`. A test compares `Dockerfile` with this list, and `cargo xtask image` compares the binary with it.
pub const LIBRARIES: [&str; 3] = ["libc.so.6", "libgcc_s.so.1", "libm.so.6"];

/// A file that the binary needs at run time: a shared library, or the loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name in ELF files, such as `libc.so.6`.
    pub name: String,
    /// The file on the build host.
    pub source: PathBuf,
    /// The path in the image.
    pub path: String,
}

/// Returns the loader and all libraries that the binary needs, directly or through a library, sorted by their paths in
/// the image. `directories` are searched before the default directories of the build host.
///
/// # Errors
/// Fails if the binary has another architecture or another loader, or if a library is missing.
pub fn of_binary(
    binary: &Path,
    architecture: Architecture,
    directories: &[PathBuf],
) -> Result<Vec<Library>, Error> {
    let search = Search {
        architecture,
        directories: [directories, &architecture.host_directories()].concat(),
    };
    let elf = search.read_binary(binary)?;
    let loader = architecture.loader();
    let loader_name = loader.rsplit('/').next().unwrap_or(loader);
    let (source, _) = search.find(loader_name, binary)?;
    let mut found = BTreeMap::from([(
        loader_name.to_owned(),
        Library {
            name: loader_name.to_owned(),
            source,
            path: loader.to_owned(),
        },
    )]);
    let mut queue = VecDeque::from([(binary.to_owned(), elf)]);
    while let Some((file, elf)) = queue.pop_front() {
        for name in elf.needed {
            if found.contains_key(&name) {
                continue;
            }
            let (source, elf) = search.find(&name, &file)?;
            let library = Library {
                path: path_in_image(architecture, &source, &name),
                name: name.clone(),
                source: source.clone(),
            };
            found.insert(name, library);
            queue.push_back((source, elf));
        }
    }
    let mut libraries: Vec<_> = found.into_values().collect();
    libraries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(libraries)
}

/// Checks that the binary needs [`LIBRARIES`] and no others.
///
/// # Errors
/// Names the libraries that differ.
pub fn check(libraries: &[Library], architecture: Architecture) -> Result<(), Error> {
    let others = libraries
        .iter()
        .filter(|library| library.path != architecture.loader());
    let needed: BTreeSet<_> = others.map(|library| library.name.as_str()).collect();
    let listed = BTreeSet::from(LIBRARIES);
    if needed == listed {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "the binary needs {needed:?}, but LIBRARIES in image/src/libraries.rs lists {listed:?}; change the list and \
         Dockerfile"
    )))
}

/// Returns the path of a library in the image: one of the default directories of its loader. The loader of the image
/// comes from the same host. Debian's loader searches a directory per architecture. Fedora's loader searches `/lib64`.
fn path_in_image(architecture: Architecture, source: &Path, name: &str) -> String {
    let directory = source.parent().unwrap_or(source);
    if matches!(directory.to_str(), Some("/lib64" | "/usr/lib64")) {
        return format!("/lib64/{name}");
    }
    format!("/lib/{}/{name}", architecture.triplet())
}

/// A search for libraries of an architecture.
struct Search {
    architecture: Architecture,
    directories: Vec<PathBuf>,
}

impl Search {
    fn read_binary(&self, binary: &Path) -> Result<Elf, Error> {
        let elf = Elf::read(binary)?;
        let loader = self.architecture.loader();
        if elf.machine == self.architecture.machine() && elf.interpreter.as_deref() == Some(loader)
        {
            return Ok(elf);
        }
        Err(Error::Invalid(format!(
            "{}: not a binary for {} (its loader is {}, not {loader}); build it for the target {}",
            binary.display(),
            self.architecture,
            elf.interpreter.as_deref().unwrap_or("none"),
            self.architecture.target(),
        )))
    }

    /// Returns the first file of this name for the architecture. Files for other architectures are skipped, because
    /// `/lib` may contain them.
    fn find(&self, name: &str, needed_by: &Path) -> Result<(PathBuf, Elf), Error> {
        for directory in &self.directories {
            let path = directory.join(name);
            if !path.is_file() {
                continue;
            }
            let elf = Elf::read(&path)?;
            if elf.machine == self.architecture.machine() {
                return Ok((path, elf));
            }
        }
        let searched: Vec<_> = self
            .directories
            .iter()
            .map(|it| it.display().to_string())
            .collect();
        Err(Error::LibraryMissing {
            name: name.to_owned(),
            needed_by: needed_by.display().to_string(),
            searched: searched.join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    #[test]
    fn libraries_of_libraries_are_found() {
        let architecture = Architecture::of_host().unwrap();
        let libraries = of_binary(&this(), architecture, &[]).unwrap();
        let paths: Vec<_> = libraries.iter().map(|it| it.path.as_str()).collect();
        assert!(paths.contains(&architecture.loader()), "{paths:?}");
        assert!(
            paths.iter().any(|path| path.ends_with("/libc.so.6")),
            "{paths:?}"
        );
        assert!(paths.is_sorted());
        for library in libraries {
            assert!(library.source.is_file());
        }
    }

    #[test]
    fn a_binary_of_another_architecture_is_refused() {
        let host = Architecture::of_host().unwrap();
        let other = Architecture::ALL
            .into_iter()
            .find(|it| *it != host)
            .unwrap();
        let error = of_binary(&this(), other, &[]).unwrap_err().to_string();
        assert!(error.contains(other.target()), "{error}");
    }

    #[test]
    fn a_missing_library_is_named_with_the_file_that_needs_it() {
        let architecture = Architecture::of_host().unwrap();
        let empty = tempfile::tempdir().unwrap();
        let search = Search {
            architecture,
            directories: vec![empty.path().to_owned()],
        };
        let error = search.find("libc.so.6", &this()).unwrap_err().to_string();
        assert!(error.contains("libc.so.6"), "{error}");
        assert!(error.contains(&this().display().to_string()), "{error}");
        assert!(error.contains("--library-path"), "{error}");
    }

    #[test]
    fn files_of_other_architectures_are_skipped() {
        let host = Architecture::of_host().unwrap();
        let other = Architecture::ALL
            .into_iter()
            .find(|it| *it != host)
            .unwrap();
        let search = Search {
            architecture: other,
            directories: host.host_directories(),
        };
        assert!(matches!(
            search.find("libc.so.6", &this()),
            Err(Error::LibraryMissing { .. })
        ));
    }

    #[test]
    fn each_library_lies_where_its_loader_searches() {
        let path = |source| path_in_image(Architecture::Amd64, Path::new(source), "libc.so.6");
        for source in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/opt/sysroot/libc.so.6",
        ] {
            assert_eq!(path(source), "/lib/x86_64-linux-gnu/libc.so.6");
        }
        assert_eq!(path("/usr/lib64/libc.so.6"), "/lib64/libc.so.6");
    }

    #[test]
    fn another_library_than_the_listed_ones_is_an_error() {
        let library = |name: &str| Library {
            name: name.to_owned(),
            source: PathBuf::new(),
            path: format!("/lib/{name}"),
        };
        let mut libraries: Vec<_> = LIBRARIES.into_iter().map(library).collect();
        libraries.push(Library {
            path: Architecture::Amd64.loader().to_owned(),
            ..library("ld-linux-x86-64.so.2")
        });
        check(&libraries, Architecture::Amd64).unwrap();
        libraries.push(library("libz.so.1"));
        let error = check(&libraries, Architecture::Amd64).unwrap_err();
        assert!(error.to_string().contains("libz.so.1"), "{error}");
    }
}
