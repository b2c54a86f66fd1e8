//! Reads the files of a directory that a volume or an operator fills.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a file cannot be used. The message has the path.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be read, or is no text.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The entry is something else, such as a directory. A pipe or a device would never end.
    #[error("{} is not a file", .0.display())]
    NoFile(PathBuf),
    /// The file is too large.
    #[error("{} must have at most {max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        max: u64,
    },
}

/// The contents of files, by path.
pub type Contents = BTreeMap<PathBuf, Result<String, FileError>>;

/// Reads the files of a directory that have one of these endings, with at most `max` bytes each. Skips entries whose
/// names begin with a dot: a mounted volume has its versions there.
///
/// # Errors
///
/// If the directory cannot be listed.
pub fn read(directory: &Path, endings: &[&str], max: u64) -> io::Result<Contents> {
    let mut contents = Contents::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && ending.is_some_and(|ending| endings.contains(&ending)) {
            let text = read_file(&path, max);
            contents.insert(path, text);
        }
    }
    Ok(contents)
}

fn read_file(path: &Path, max: u64) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(FileError::NoFile(path.to_owned()));
    }
    let opened = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more tells a file that is too large. It is no text if its last character is cut.
    let read = opened.take(max.saturating_add(1)).read_to_end(&mut bytes);
    if read.map_err(unreadable)? as u64 > max {
        let path = path.to_owned();
        return Err(FileError::TooLarge { path, max });
    }
    let text = String::from_utf8(bytes);
    text.map_err(|error| {
        unreadable(io::Error::new(
            io::ErrorKind::InvalidData,
            error.utf8_error(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn each_file_has_its_contents_or_its_problem() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, text) in [
            ("a.x", "text"),
            ("b.y", "other"),
            ("c.z", "not asked for"),
            (".x", "hidden"),
            ("..data.x", "hidden"),
            ("large.x", "12345678 "),
            ("edge.x", "12345678"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        fs::write(path("binary.x"), [0xff]).unwrap();
        fs::write(path("cut.x"), "1234567é").unwrap();
        fs::create_dir(path("folder.x")).unwrap();
        symlink("a.x", path("link.x")).unwrap();
        symlink("absent", path("dangling.x")).unwrap();
        let read = read(directory.path(), &["x", "y"], 8).unwrap();
        let shown = read.into_iter().map(|(path, text)| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let text = text.unwrap_or_else(|error| error.to_string());
            (name, text.rsplit('/').next().unwrap().to_owned())
        });
        let expected = [
            ("a.x", "text"),
            ("b.y", "other"),
            (
                "binary.x",
                "binary.x: invalid utf-8 sequence of 1 bytes from index 0",
            ),
            ("cut.x", "cut.x must have at most 8 bytes"),
            (
                "dangling.x",
                "dangling.x: No such file or directory (os error 2)",
            ),
            ("edge.x", "12345678"),
            ("folder.x", "folder.x is not a file"),
            ("large.x", "large.x must have at most 8 bytes"),
            ("link.x", "text"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert!(super::read(&path("none"), &["x"], 8).is_err());
    }
}
