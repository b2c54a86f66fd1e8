//! The bundle of manifests that Flux's OCIRepository reads.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::archive::{self, FileTree};
use crate::container::Facts;
use crate::oci::{MANIFEST, OciLayout, sha256};
use crate::{Error, Reference};

/// The media type of the config in Flux's artifacts.
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
/// The media type of the layer in Flux's artifacts.
const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
/// The file that kustomize reads in each directory.
const KUSTOMIZATION: &str = "kustomization.yaml";

/// Returns the bundle of the files as an artifact.
///
/// # Errors
/// Fails if the files cannot be packed.
pub fn artifact(
    files: &FileTree,
    reference: &Reference,
    facts: &Facts,
) -> Result<OciLayout, Error> {
    let archive = archive::tar(files, facts.time)?;
    let mut layout = OciLayout::default();
    let created = facts.created()?;
    // Flux does not read the config. Tools that check images compare `diff_ids` with the layer.
    let config = json!({
        "architecture": "",
        "config": {},
        "created": created,
        "os": "",
        "rootfs": {"diff_ids": [format!("sha256:{}", sha256(&archive))], "type": "layers"},
    });
    let config = layout.add_json(CONFIG, &config);
    let content = layout.add(CONTENT, archive::gzip(&archive)?);
    let manifest = json!({
        "annotations": {
            "org.opencontainers.image.created": created,
            // The format in which Flux writes and shows revisions.
            "org.opencontainers.image.revision": format!("{}@sha1:{}", reference.tag, facts.revision),
            "org.opencontainers.image.source": facts.source,
        },
        "config": config,
        "layers": [content],
        "mediaType": MANIFEST,
        "schemaVersion": 2,
    });
    let manifest = layout.add_json(MANIFEST, &manifest);
    layout.name(manifest, reference);
    Ok(layout)
}

/// Sets the image of all workloads. `former` is the name that the manifests use. The kustomization beside a manifest
/// with this image gets an entry in its list `images`. An entry that exists is replaced.
///
/// # Errors
/// Fails if no manifest uses the image, if a manifest is invalid, or if the kustomization does not list the manifest.
pub fn stamp(files: &mut FileTree, former: &str, image: &Reference) -> Result<(), Error> {
    let mut directories = BTreeSet::new();
    for (path, file) in files.iter().filter(|(path, _)| is_yaml(path)) {
        let text = text(path, &file.content)?;
        if text.lines().any(|line| is_image(line, former)) {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            directories.insert((directory.to_owned(), name.to_owned()));
        }
    }
    if directories.is_empty() {
        return Err(Error::Invalid(format!(
            "deploy: no manifest has the image {former}"
        )));
    }
    for (directory, manifest) in directories {
        let path = format!("{directory}/{KUSTOMIZATION}");
        let path = path.trim_start_matches('/');
        let file = files.get_mut(path).ok_or_else(|| {
            Error::Invalid(format!(
                "{path}: does not exist, but {manifest} beside it has the image"
            ))
        })?;
        let text = text(path, &file.content)?;
        file.content = stamped(path, text, former, image)?.into_bytes();
    }
    Ok(())
}

fn is_yaml(path: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, extension)| matches!(extension, "yaml" | "yml"))
}

fn text<'a>(path: &str, content: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(content).map_err(|_| Error::Invalid(format!("{path}: not UTF-8")))
}

/// Returns whether a line of a manifest is the field `image` of a container with this name, with or without a tag.
fn is_image(line: &str, name: &str) -> bool {
    let line = line.trim_start().trim_start_matches("- ");
    let image = line
        .strip_prefix("image:")
        .map(|it| it.trim().trim_matches(['"', '\'']));
    let rest = image.and_then(|image| image.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '@']))
}

/// Returns the kustomization with the image. Everything except the list `images` keeps its text.
fn stamped(path: &str, text: &str, former: &str, image: &Reference) -> Result<String, Error> {
    let parse = |text: &str| -> Result<Value, Error> {
        serde_saphyr::from_str(text).map_err(|error| Error::Invalid(format!("{path}: {error}")))
    };
    let mut expected = parse(text)?;
    let images = match expected.get("images") {
        None => &Vec::new(),
        Some(images) => images
            .as_array()
            .ok_or_else(|| Error::Invalid(format!("{path}: images must be a list")))?,
    };
    let others = images.iter().filter(|image| image["name"] != former);
    let entry = match image.name == former {
        true => json!({"name": former, "newTag": image.tag}),
        false => json!({"name": former, "newName": image.name, "newTag": image.tag}),
    };
    let images: Vec<_> = others.cloned().chain([entry]).collect();
    let list = json!({"images": images});
    let list = serde_saphyr::to_string(&list)
        .map_err(|error| Error::Invalid(format!("{path}: {error}")))?;
    let mut stamped: String = without_images(text).collect();
    if !stamped.ends_with('\n') {
        stamped.push('\n');
    }
    stamped.push_str(&list);
    if let Some(fields) = expected.as_object_mut() {
        fields.insert("images".to_owned(), Value::Array(images));
    }
    if parse(&stamped)? == expected {
        return Ok(stamped);
    }
    Err(Error::Invalid(format!(
        "{path}: write the list images in the block style of YAML, at the end of the file"
    )))
}

/// Returns the lines that do not belong to the field `images` at the top of the document.
fn without_images(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split_inclusive('\n').filter(move |line| {
        let is_continued = line.starts_with([' ', '-', '#']) || line.trim().is_empty();
        inside = line.starts_with("images:") || inside && is_continued;
        !inside
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::archive::File;

    const NAME: &str = "ghcr.io/datum-cloud/compute";
    const DEPLOYMENT: &str = "kind: Deployment\nspec:\n  containers:\n    - name: manager\n      image: ghcr.io/datum-cloud/compute:latest\n";
    const PLAIN: &str = "# Comment.\nkind: Kustomization\nresources:\n  - manager.yaml\n";

    fn files(files: &[(&str, &str)]) -> FileTree {
        let file = |content: &str| File {
            mode: 0o644,
            content: content.as_bytes().to_vec(),
        };
        files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), file(content)))
            .collect()
    }

    fn manager(kustomization: &str) -> FileTree {
        files(&[
            ("base/crd/kustomization.yaml", "kind: Kustomization\n"),
            ("base/manager/kustomization.yaml", kustomization),
            ("base/manager/manager.yaml", DEPLOYMENT),
        ])
    }

    fn stamp_with(kustomization: &str, image: &str) -> Result<String, Error> {
        let mut files = manager(kustomization);
        stamp(&mut files, NAME, &image.parse().unwrap())?;
        assert_eq!(
            files["base/crd/kustomization.yaml"].content,
            b"kind: Kustomization\n"
        );
        assert_eq!(
            files["base/manager/manager.yaml"].content,
            DEPLOYMENT.as_bytes()
        );
        let file = &files["base/manager/kustomization.yaml"];
        Ok(String::from_utf8(file.content.clone()).unwrap())
    }

    #[test]
    fn the_kustomization_beside_the_manifest_gets_the_image() {
        let text = stamp_with(PLAIN, "ghcr.io/datum-cloud/compute:v1.2.3").unwrap();
        assert!(text.starts_with(PLAIN), "{text}");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["images"], json!([{"name": NAME, "newTag": "v1.2.3"}]));
    }

    #[test]
    fn a_tag_that_looks_like_a_number_stays_a_text() {
        let text = stamp_with(PLAIN, "ghcr.io/datum-cloud/compute:1.20").unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["images"][0]["newTag"], "1.20");
        assert!(
            text.contains("\"1.20\"") || text.contains("'1.20'"),
            "{text}"
        );
    }

    #[test]
    fn a_mirror_has_another_name() {
        let text = stamp_with(PLAIN, "registry.example.com:5000/compute:v1").unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            value["images"],
            json!([{"name": NAME, "newName": "registry.example.com:5000/compute", "newTag": "v1"}])
        );
    }

    #[test]
    fn a_former_entry_is_replaced_and_others_stay() {
        let former = "kind: Kustomization\nimages:\n  # Comment.\n  - name: ghcr.io/datum-cloud/compute\n    newTag: dev\n  - name: other\n    newTag: x\nresources:\n  - manager.yaml\n";
        let text = stamp_with(former, "ghcr.io/datum-cloud/compute:v1").unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            value["images"],
            json!([{"name": "other", "newTag": "x"}, {"name": NAME, "newTag": "v1"}])
        );
        assert_eq!(value["resources"], json!(["manager.yaml"]));
        let again = stamp_with(&text, "ghcr.io/datum-cloud/compute:v1").unwrap();
        assert_eq!(again, text);
    }

    #[test]
    fn each_directory_with_the_image_is_stamped() {
        let mut files = manager(PLAIN);
        files.extend(self::files(&[
            ("components/interpreter/kustomization.yaml", PLAIN),
            ("components/interpreter/manager.yaml", DEPLOYMENT),
        ]));
        stamp(
            &mut files,
            NAME,
            &"ghcr.io/datum-cloud/compute:v1".parse().unwrap(),
        )
        .unwrap();
        for directory in ["base/manager", "components/interpreter"] {
            let content = &files[&format!("{directory}/kustomization.yaml")].content;
            assert!(
                String::from_utf8_lossy(content).contains("newTag: v1"),
                "{directory}"
            );
        }
    }

    #[test]
    fn an_image_that_is_not_stamped_is_an_error() {
        let image = "ghcr.io/datum-cloud/compute:v1".parse().unwrap();
        let mut none = files(&[(
            "base/manager/manager.yaml",
            "image: ghcr.io/datum-cloud/computer\n",
        )]);
        let error = stamp(&mut none, NAME, &image).unwrap_err().to_string();
        assert!(error.contains("no manifest has the image"), "{error}");
        let mut alone = files(&[("base/manager/manager.yaml", DEPLOYMENT)]);
        let error = stamp(&mut alone, NAME, &image).unwrap_err().to_string();
        assert!(
            error.contains("base/manager/kustomization.yaml: does not exist"),
            "{error}"
        );
        let error = stamp_with(
            "kind: Kustomization\nimages: x\n",
            "ghcr.io/datum-cloud/compute:v1",
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("images must be a list")
        );
    }

    #[test]
    fn the_artifact_has_the_media_types_of_flux() {
        let facts = Facts {
            version: "0.1.0".to_owned(),
            revision: "0123".to_owned(),
            source: "https://example.com/compute".to_owned(),
            time: 0,
        };
        let reference = "ghcr.io/datum-cloud/compute-kustomize:v1".parse().unwrap();
        let files = manager(PLAIN);
        let layout = artifact(&files, &reference, &facts).unwrap();
        let listed = &layout.manifests()[0];
        let manifest: Value = serde_json::from_slice(layout.blob(listed).unwrap()).unwrap();
        assert_eq!(manifest["config"]["mediaType"], CONFIG);
        assert_eq!(manifest["layers"][0]["mediaType"], CONTENT);
        assert_eq!(
            manifest["annotations"],
            json!({
                "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
                "org.opencontainers.image.revision": "v1@sha1:0123",
                "org.opencontainers.image.source": "https://example.com/compute",
            })
        );
        let digest = manifest["layers"][0]["digest"].as_str().unwrap();
        let blob = &layout.files()[&format!("blobs/{}", digest.replace(':', "/"))].content;
        let mut archive = tar::Archive::new(GzDecoder::new(blob.as_slice()));
        let mut contents = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            if !text.is_empty() {
                contents.push((entry.path().unwrap().display().to_string(), text));
            }
        }
        let expected = files
            .iter()
            .map(|(path, file)| (path.clone(), text(path, &file.content).unwrap().to_owned()));
        assert_eq!(contents, expected.collect::<Vec<_>>());
        assert_eq!(
            layout.files(),
            artifact(&files, &reference, &facts).unwrap().files()
        );
    }
}
