//! OCI image layouts.
//!
//! An [image layout](https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md) is a directory with an
//! index and with blobs, which are named by their SHA-256.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::archive::{self, File, FileTree};
use crate::{Error, Reference};

/// The media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an index.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of the config of an artifact that has no config.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Annotations by their names.
pub type Annotations = BTreeMap<String, String>;

/// Returns the SHA-256 of the content in hexadecimal digits.
pub fn sha256(content: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in digest(&SHA256, content).as_ref() {
        // Writing into a String cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Refers to a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What the blob is.
    pub media_type: String,
    /// `sha256:` and the SHA-256.
    pub digest: String,
    /// The length in bytes.
    pub size: usize,
    /// What an artifact is, if it is not an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// For which machines an image is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Value>,
    /// Further facts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Annotations,
}

impl Descriptor {
    /// Returns the descriptor of a blob.
    pub fn new(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", sha256(content)),
            size: content.len(),
            artifact_type: None,
            platform: None,
            annotations: Annotations::new(),
        }
    }

    /// Returns the path of the blob in a layout.
    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// The content of an image layout.
#[derive(Clone, Debug, Default)]
pub struct OciLayout {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Descriptor>,
}

impl OciLayout {
    /// Adds a blob and returns its descriptor.
    pub fn add(&mut self, media_type: &str, content: Vec<u8>) -> Descriptor {
        let descriptor = Descriptor::new(media_type, &content);
        self.blobs.insert(descriptor.path(), content);
        descriptor
    }

    /// Adds a blob of JSON and returns its descriptor.
    pub fn add_json(&mut self, media_type: &str, content: &Value) -> Descriptor {
        self.add(media_type, content.to_string().into_bytes())
    }

    /// Adds the descriptor of a manifest to the index. A tool finds the manifest by the tag and containerd by the whole
    /// name.
    pub fn name(&mut self, mut manifest: Descriptor, reference: &Reference) {
        let names = [
            ("io.containerd.image.name", reference.to_string()),
            ("org.opencontainers.image.ref.name", reference.tag.clone()),
        ];
        let names = names.map(|(name, value)| (name.to_owned(), value));
        manifest.annotations.extend(names);
        self.manifests.push(manifest);
    }

    /// Adds the descriptor of a manifest without a name to the index.
    pub fn list(&mut self, manifest: Descriptor) {
        self.manifests.push(manifest);
    }

    /// Returns the manifests of the index.
    pub fn manifests(&self) -> &[Descriptor] {
        &self.manifests
    }

    /// Returns the content of a blob.
    pub fn blob(&self, descriptor: &Descriptor) -> Option<&[u8]> {
        self.blobs.get(&descriptor.path()).map(Vec::as_slice)
    }

    /// Returns the files of the layout.
    pub fn files(&self) -> FileTree {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests});
        let version = json!({"imageLayoutVersion": "1.0.0"});
        let own = [("index.json", index), ("oci-layout", version)];
        let own = own.map(|(path, content)| (path.to_owned(), content.to_string().into_bytes()));
        let files = self.blobs.clone().into_iter().chain(own);
        files
            .map(|(path, content)| {
                (
                    path,
                    File {
                        mode: 0o644,
                        content,
                    },
                )
            })
            .collect()
    }

    /// Writes the layout into a directory. Replaces a former layout in this directory.
    ///
    /// # Errors
    /// Fails if the directory exists and has no layout, or if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        if directory.exists() {
            if !directory.join("oci-layout").is_file() {
                return Err(Error::Invalid(format!(
                    "{}: exists and is no OCI image layout; choose another directory",
                    directory.display()
                )));
            }
            fs::remove_dir_all(directory).map_err(Error::file(directory))?;
        }
        for (path, file) in self.files() {
            let path = directory.join(path);
            let folder = path.parent().unwrap_or(directory);
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
            fs::write(&path, file.content).map_err(Error::file(&path))?;
        }
        Ok(())
    }

    /// Returns a tar archive of the layout with additional files.
    ///
    /// # Errors
    /// Fails if the archive cannot be made.
    pub fn tar(&self, additional: FileTree, time: u64) -> Result<Vec<u8>, Error> {
        let mut files = self.files();
        files.extend(additional);
        archive::tar(&files, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_one_of_the_specification() {
        // The digest of `{}` in the image specification, "Guidance for an empty descriptor".
        let descriptor = Descriptor::new(EMPTY, b"{}");
        assert_eq!(
            serde_json::to_value(descriptor).unwrap(),
            json!({
                "mediaType": EMPTY,
                "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                "size": 2,
            })
        );
    }

    #[test]
    fn a_layout_replaces_a_former_layout_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("oci");
        let mut former = OciLayout::default();
        let stale = former.add("text/plain", b"former".to_vec());
        former.write(&directory).unwrap();
        assert!(directory.join(stale.path()).exists());
        let mut layout = OciLayout::default();
        let blob = layout.add("text/plain", b"content".to_vec());
        layout.write(&directory).unwrap();
        assert!(!directory.join(stale.path()).exists());
        assert_eq!(fs::read(directory.join(blob.path())).unwrap(), b"content");
        assert_eq!(
            fs::read_to_string(directory.join("oci-layout")).unwrap(),
            r#"{"imageLayoutVersion":"1.0.0"}"#
        );
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        let error = layout.write(&other).unwrap_err().to_string();
        assert!(error.contains("is no OCI image layout"), "{error}");
    }

    #[test]
    fn a_name_is_found_by_tools_and_by_containerd() {
        let mut layout = OciLayout::default();
        let manifest = layout.add_json(MANIFEST, &json!({}));
        layout.name(manifest, &"ghcr.io/datum-cloud/compute:v1".parse().unwrap());
        let files = layout.files();
        let index: Value = serde_json::from_slice(&files["index.json"].content).unwrap();
        assert_eq!(
            index["manifests"][0]["annotations"],
            json!({
                "io.containerd.image.name": "ghcr.io/datum-cloud/compute:v1",
                "org.opencontainers.image.ref.name": "v1",
            })
        );
    }
}
