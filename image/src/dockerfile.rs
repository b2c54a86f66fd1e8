//! Compares `Dockerfile` with the image of this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::Architecture;
use crate::container::Facts;
use crate::rootfs::{BINARY, USER, paths};

/// Returns the instructions by stage: the name of the stage, or an empty name for the last one. Continued lines are one
/// instruction.
fn stages() -> BTreeMap<String, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Dockerfile");
    let text = fs::read_to_string(path).unwrap().replace("\\\n", "");
    let mut stages = BTreeMap::new();
    let mut name = String::new();
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        if let Some(from) = line.strip_prefix("FROM ") {
            name = from
                .split_once(" AS ")
                .map_or("", |(_, name)| name)
                .to_owned();
        }
        stages
            .entry(name.clone())
            .or_insert_with(Vec::new)
            .push(line.to_owned());
    }
    stages
}

/// Returns the files that the `COPY` instructions write, with their sources.
fn copied(instructions: &[String]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for line in instructions.iter().filter(|line| line.starts_with("COPY ")) {
        let words = line
            .split_whitespace()
            .skip(1)
            .filter(|word| !word.starts_with("--"));
        let mut sources: Vec<_> = words.collect();
        let target = sources.pop().unwrap();
        assert!(
            target.ends_with('/'),
            "{line}: the target must be a directory"
        );
        for source in sources {
            let name = source.rsplit('/').next().unwrap();
            files.insert(format!("{target}{name}"), source.to_owned());
        }
    }
    files
}

#[test]
fn the_files_are_those_of_the_image() {
    let stages = stages();
    for architecture in Architecture::ALL {
        let mut files = copied(&stages[&format!("libraries-{architecture}")]);
        files.extend(copied(&stages[""]));
        let found: Vec<_> = files.keys().cloned().collect();
        assert_eq!(found, paths(architecture), "{architecture}");
        for (path, source) in files {
            // Debian links the path of the loader to a file in the directory of the libraries.
            let is_loader = path == architecture.loader();
            let of_checkout = source.strip_prefix("image/rootfs");
            assert!(
                of_checkout.unwrap_or(&source) == path || is_loader,
                "{source} is copied to {path}"
            );
        }
    }
}

#[test]
fn the_user_the_entry_point_and_the_labels_are_those_of_the_image() {
    let stages = stages();
    let last = &stages[""];
    let values = |instruction: &str| {
        let prefix = format!("{instruction} ");
        let values = last
            .iter()
            .filter_map(|line| Some(line.strip_prefix(&prefix)?.to_owned()));
        values.collect::<Vec<_>>()
    };
    assert_eq!(values("USER"), [USER]);
    assert_eq!(values("ENTRYPOINT"), [format!("[{BINARY:?}]")]);
    let variable = |name: &str| format!("${name}");
    let facts = Facts {
        version: variable("VERSION"),
        revision: variable("REVISION"),
        source: "https://github.com/datum-cloud/compute".to_owned(),
        time: 0,
    };
    let mut labels = facts.labels().unwrap();
    labels.insert(
        "org.opencontainers.image.created".to_owned(),
        variable("CREATED"),
    );
    let labels: BTreeSet<_> = labels.into_iter().collect();
    let found: BTreeSet<_> = values("LABEL")
        .iter()
        .map(|label| label.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    assert_eq!(found, labels);
}

#[test]
fn the_compiler_has_the_version_of_the_workspace() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.unwrap().trim_matches('"');
    let expected = format!("FROM rust:{version}-bookworm AS build");
    assert_eq!(stages()["build"].first(), Some(&expected));
}
