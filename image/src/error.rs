//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// Says why content could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written. Check the path and its permissions.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The input is invalid. The text names the input and the valid values.
    #[error("{0}")]
    Invalid(String),
    /// A shared library was not found. Install it, or name its directory.
    #[error(
        "{needed_by} needs the shared library {name}, which is in none of {searched}; install it, or name its \
         directory with --library-path"
    )]
    LibraryMissing {
        /// The name in the ELF file, such as `libc.so.6`.
        name: String,
        /// The file that needs the library.
        needed_by: String,
        /// The directories that were searched, separated by commas.
        searched: String,
    },
}

impl Error {
    /// Returns a function that adds the path to an error of the operating system.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
