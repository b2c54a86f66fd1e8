//! Archives with equal bytes for equal content.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::Error;

/// A file of an archive. All files belong to user and group 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The permissions, such as `0o644`.
    pub mode: u32,
    /// The content.
    pub content: Vec<u8>,
}

/// Files by their paths. A path has no leading `/`.
pub type FileTree = BTreeMap<String, File>;

/// Returns a tar archive of the files and of the directories that they need, sorted by path.
///
/// `time` is the modification time of all entries, in seconds since 1970.
///
/// # Errors
/// Fails if the format cannot represent a path.
pub fn tar(files: &FileTree, time: u64) -> Result<Vec<u8>, Error> {
    let mut entries: BTreeMap<&str, Option<&File>> = BTreeMap::new();
    for (path, file) in files {
        for (end, _) in path.match_indices('/') {
            entries
                .entry(path.get(..end).unwrap_or_default())
                .or_default();
        }
        entries.insert(path, Some(file));
    }
    let mut builder = Builder::new(Vec::new());
    for (path, file) in entries {
        let content = file.map_or(&[][..], |file| &file.content);
        let mut header = Header::new_ustar();
        header.set_entry_type(match file {
            Some(_) => EntryType::Regular,
            None => EntryType::Directory,
        });
        header.set_mode(file.map_or(0o755, |file| file.mode));
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(time);
        header.set_size(content.len() as u64);
        let path = match file {
            Some(_) => path.to_owned(),
            None => format!("{path}/"),
        };
        builder
            .append_data(&mut header, &path, content)
            .map_err(Error::file(Path::new(&path)))?;
    }
    builder.into_inner().map_err(Error::file(Path::new("tar")))
}

/// Returns the content compressed with gzip. The header has no time and no file name.
///
/// # Errors
/// Fails if the content cannot be compressed.
pub fn gzip(content: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = || Error::file(Path::new("gzip"));
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(content).map_err(failed())?;
    encoder.finish().map_err(failed())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    fn files(paths: &[&str]) -> FileTree {
        let file = |path: &str| File {
            mode: 0o644,
            content: path.as_bytes().to_vec(),
        };
        paths
            .iter()
            .map(|path| ((*path).to_owned(), file(path)))
            .collect()
    }

    #[test]
    fn entries_are_sorted_and_have_their_directories() {
        let tar = tar(&files(&["etc/ssl/cert", "a", "etc/passwd"]), 7).unwrap();
        let mut archive = Archive::new(tar.as_slice());
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!(header.mtime().unwrap(), 7);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            seen.push((path, header.mode().unwrap(), content));
        }
        let entry = |path: &str, mode, content: &str| (path.to_owned(), mode, content.to_owned());
        assert_eq!(
            seen,
            [
                entry("a", 0o644, "a"),
                entry("etc/", 0o755, ""),
                entry("etc/passwd", 0o644, "etc/passwd"),
                entry("etc/ssl/", 0o755, ""),
                entry("etc/ssl/cert", 0o644, "etc/ssl/cert"),
            ]
        );
    }

    #[test]
    fn a_long_path_is_kept() {
        let path = format!("{}/file", "directory/".repeat(30).trim_end_matches('/'));
        let tar = tar(&files(&[&path]), 0).unwrap();
        let mut archive = Archive::new(tar.as_slice());
        let mut entries = archive.entries().unwrap();
        let last = entries.by_ref().last().unwrap().unwrap();
        assert_eq!(last.path().unwrap().display().to_string(), path);
    }

    #[test]
    fn compressed_content_has_no_time_and_comes_back() {
        let content = b"content ".repeat(100);
        let compressed = gzip(&content).unwrap();
        // Flags, and the time: RFC 1952, section 2.3.
        assert_eq!(compressed[3..8], [0; 5]);
        let mut back = Vec::new();
        GzDecoder::new(compressed.as_slice())
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, content);
    }
}
