//! The container image: a layer, a config and a manifest.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::archive::{self, File, FileTree};
use crate::oci::{Annotations, Descriptor, MANIFEST, OciLayout};
use crate::rootfs::{BINARY, USER};
use crate::{Architecture, Error, Reference, oci};

/// The media type of a config.
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The media type of a layer.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The media type of SPDX documents.
pub const SPDX: &str = "application/spdx+json";

/// Facts about the build. Labels and annotations repeat them.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The version of the project.
    pub version: String,
    /// The commit.
    pub revision: String,
    /// The address of the sources.
    pub source: String,
    /// The time of the build in seconds since 1970. It is also the modification time of all files.
    pub time: u64,
}

impl Facts {
    /// Returns the time as in RFC 3339.
    ///
    /// # Errors
    /// Fails if the time is after the year 9999.
    pub fn created(&self) -> Result<String, Error> {
        let seconds = i64::try_from(self.time).ok();
        let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let time = time.ok_or_else(|| {
            Error::Invalid(format!(
                "SOURCE_DATE_EPOCH {}: use seconds since 1970",
                self.time
            ))
        })?;
        Ok(time.to_string())
    }

    pub(crate) fn labels(&self) -> Result<Annotations, Error> {
        let labels = [
            ("created", self.created()?),
            (
                "description",
                "Carries WorkloadDeployments through a Karmada hub to the cells, and their status back".to_owned(),
            ),
            ("licenses", "Apache-2.0".to_owned()),
            ("revision", self.revision.clone()),
            ("source", self.source.clone()),
            ("title", "compute-federation".to_owned()),
            ("version", self.version.clone()),
        ];
        let labels =
            labels.map(|(name, value)| (format!("org.opencontainers.image.{name}"), value));
        Ok(labels.into())
    }
}

/// An image for one architecture.
#[derive(Debug)]
pub struct Image {
    /// The tar archive of the files, before compression.
    pub layer: Vec<u8>,
    layout: OciLayout,
    manifest: Descriptor,
    config: Descriptor,
    compressed: Descriptor,
    reference: Reference,
    facts: Facts,
}

impl Image {
    /// Makes an image of the files.
    ///
    /// # Errors
    /// Fails if the files cannot be packed.
    pub fn new(
        files: &FileTree,
        architecture: Architecture,
        reference: Reference,
        facts: Facts,
    ) -> Result<Self, Error> {
        let layer = archive::tar(files, facts.time)?;
        let labels = facts.labels()?;
        let mut layout = OciLayout::default();
        let compressed = layout.add(LAYER, archive::gzip(&layer)?);
        let created = facts.created()?;
        let config = json!({
            "architecture": architecture.name(),
            "config": {
                "Entrypoint": [BINARY],
                "Labels": labels,
                "User": USER,
                "WorkingDir": "/",
            },
            "created": created,
            "history": [{"created": created, "created_by": "cargo xtask image"}],
            "os": "linux",
            "rootfs": {"diff_ids": [format!("sha256:{}", oci::sha256(&layer))], "type": "layers"},
        });
        let config = layout.add_json(CONFIG, &config);
        let manifest = json!({
            "annotations": labels,
            "config": config,
            "layers": [compressed],
            "mediaType": MANIFEST,
            "schemaVersion": 2,
        });
        let mut manifest = layout.add_json(MANIFEST, &manifest);
        manifest.platform = Some(json!({"architecture": architecture.name(), "os": "linux"}));
        layout.name(manifest.clone(), &reference);
        Ok(Self {
            layer,
            layout,
            manifest,
            config,
            compressed,
            reference,
            facts,
        })
    }

    /// Adds an SPDX document as an artifact that refers to the image.
    ///
    /// # Errors
    /// Fails if the time of the build is invalid.
    pub fn attach(&mut self, document: &Value) -> Result<(), Error> {
        let empty = self.layout.add(oci::EMPTY, b"{}".to_vec());
        let document = self.layout.add_json(SPDX, document);
        let subject = Descriptor {
            platform: None,
            ..self.manifest.clone()
        };
        let manifest = json!({
            "annotations": {"org.opencontainers.image.created": self.facts.created()?},
            "artifactType": SPDX,
            "config": empty,
            "layers": [document],
            "mediaType": MANIFEST,
            "schemaVersion": 2,
            "subject": subject,
        });
        let mut manifest = self.layout.add_json(MANIFEST, &manifest);
        manifest.artifact_type = Some(SPDX.to_owned());
        self.layout.list(manifest);
        Ok(())
    }

    /// Returns the digest of the manifest, as in `NAME@DIGEST`.
    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }

    /// Returns the image as an OCI layout.
    pub fn layout(&self) -> &OciLayout {
        &self.layout
    }

    /// Returns a tar archive for `docker load`, `podman load` and `ctr images import`: an OCI layout, with the
    /// `manifest.json` of Docker before version 25.
    ///
    /// # Errors
    /// Fails if the archive cannot be made.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let path =
            |descriptor: &Descriptor| format!("blobs/{}", descriptor.digest.replace(':', "/"));
        let manifest = json!([{
            "Config": path(&self.config),
            "Layers": [path(&self.compressed)],
            "RepoTags": [self.reference.to_string()],
        }]);
        let content = manifest.to_string().into_bytes();
        let file = File {
            mode: 0o644,
            content,
        };
        let additional = FileTree::from([("manifest.json".to_owned(), file)]);
        self.layout.tar(additional, self.facts.time)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn image() -> Image {
        let file = |mode, content: &str| File {
            mode,
            content: content.as_bytes().to_vec(),
        };
        let files = FileTree::from([
            ("manager".to_owned(), file(0o755, "binary")),
            ("etc/passwd".to_owned(), file(0o644, "users")),
        ]);
        let facts = Facts {
            version: "0.1.0".to_owned(),
            revision: "0123".to_owned(),
            source: "https://example.com/compute".to_owned(),
            time: 1_700_000_000,
        };
        let reference = "ghcr.io/datum-cloud/compute:v0.1.0".parse().unwrap();
        let mut image = Image::new(&files, Architecture::Arm64, reference, facts).unwrap();
        image.attach(&json!({"spdxVersion": "SPDX-2.3"})).unwrap();
        image
    }

    fn read(image: &Image, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().to_owned();
        let mut files = image.layout().files();
        let content = files.remove(&format!("blobs/{}", digest.replace(':', "/")));
        let content = content.unwrap().content;
        assert_eq!(digest, format!("sha256:{}", oci::sha256(&content)));
        assert_eq!(descriptor["size"], content.len());
        content
    }

    fn read_json(image: &Image, descriptor: &Value) -> Value {
        serde_json::from_slice(&read(image, descriptor)).unwrap()
    }

    fn index(image: &Image) -> Value {
        serde_json::from_slice(&image.layout().files()["index.json"].content).unwrap()
    }

    #[test]
    fn each_digest_names_its_content() {
        let image = image();
        let listed = &index(&image)["manifests"][0];
        assert_eq!(listed["digest"], image.digest());
        assert_eq!(
            listed["platform"],
            json!({"architecture": "arm64", "os": "linux"})
        );
        let manifest = read_json(&image, listed);
        let config = read_json(&image, &manifest["config"]);
        let mut layer = Vec::new();
        let compressed = read(&image, &manifest["layers"][0]);
        GzDecoder::new(compressed.as_slice())
            .read_to_end(&mut layer)
            .unwrap();
        let diff_id = format!("sha256:{}", oci::sha256(&layer));
        assert_eq!(config["rootfs"]["diff_ids"], json!([diff_id]));
        assert_eq!(layer, image.layer);
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["config"]["Entrypoint"], json!(["/manager"]));
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");
        assert_eq!(config["config"]["Labels"], manifest["annotations"]);
        assert_eq!(
            manifest["annotations"]["org.opencontainers.image.revision"],
            "0123"
        );
    }

    #[test]
    fn the_sbom_refers_to_the_image() {
        let image = image();
        let listed = &index(&image)["manifests"][1];
        assert_eq!(listed["artifactType"], SPDX);
        let manifest = read_json(&image, listed);
        assert_eq!(manifest["subject"]["digest"], image.digest());
        let document = read_json(&image, &manifest["layers"][0]);
        assert_eq!(document, json!({"spdxVersion": "SPDX-2.3"}));
    }

    #[test]
    fn equal_input_gives_equal_bytes() {
        assert_eq!(image().archive().unwrap(), image().archive().unwrap());
        assert_eq!(image().layout().files(), image().layout().files());
    }

    #[test]
    fn the_archive_has_the_manifest_of_docker() {
        let image = image();
        let archive = image.archive().unwrap();
        let mut archive = tar::Archive::new(archive.as_slice());
        let mut files = std::collections::BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        assert_eq!(
            manifest[0]["RepoTags"],
            json!(["ghcr.io/datum-cloud/compute:v0.1.0"])
        );
        for path in [&manifest[0]["Config"], &manifest[0]["Layers"][0]] {
            assert!(files.contains_key(path.as_str().unwrap()), "{path}");
        }
        assert!(files.contains_key("oci-layout"));
    }
}
