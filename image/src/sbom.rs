//! The software bill of materials of an image, as an SPDX 2.3 document.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::container::Facts;
use crate::{Error, Reference};

/// How a package is part of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is linked into the binary.
    Linked,
    /// The binary loads it at run time.
    Loaded,
    /// It is a file of data.
    Data,
}

/// A package of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// How it is part of the image.
    pub part: Part,
    /// The name.
    pub name: String,
    /// The version, if it is known.
    pub version: Option<String>,
    /// The licence as an SPDX expression, if it is known.
    pub license: Option<String>,
    /// The SHA-256 of the package's file in its registry, or of the file in the image.
    pub sha256: Option<String>,
    /// The package URL, by which scanners look for vulnerabilities.
    pub purl: Option<String>,
}

/// The format of `cargo tree` that [`linked`] reads.
pub const TREE_FORMAT: &str = "{p}|{l}";

/// Returns the packages that are linked into the binary.
///
/// `tree` is the output of `cargo tree` with [`TREE_FORMAT`] and without indentation, for normal dependencies and
/// without procedural macros. `lock` is the text of `Cargo.lock`, and `rustc` the version of the compiler, whose
/// standard library is linked too. Packages without a registry belong to this repository and are left out.
///
/// # Errors
/// Fails if a line has another format.
pub fn linked(tree: &str, lock: &str, rustc: &str) -> Result<Vec<Package>, Error> {
    let checksums = checksums(lock);
    let mut packages = BTreeMap::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let invalid = || Error::Invalid(format!("output of cargo tree: unexpected line {line:?}"));
        let (package, license) = line.split_once('|').ok_or_else(invalid)?;
        let mut words = package.split_whitespace();
        let name = words.next().ok_or_else(invalid)?;
        let version = words.next().and_then(|version| version.strip_prefix('v'));
        let version = version.ok_or_else(invalid)?;
        let Some(checksum) = checksums.get(&(name, version)) else {
            continue;
        };
        let package = Package {
            part: Part::Linked,
            name: name.to_owned(),
            version: Some(version.to_owned()),
            license: expression(license),
            sha256: Some((*checksum).to_owned()),
            purl: Some(format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))),
        };
        packages.insert((name, version), package);
    }
    let standard = Package {
        part: Part::Linked,
        name: "rust-std".to_owned(),
        version: Some(rustc.to_owned()),
        license: expression("MIT OR Apache-2.0"),
        sha256: None,
        purl: None,
    };
    Ok(packages.into_values().chain([standard]).collect())
}

/// Returns the licence as a valid SPDX expression. Older packages write `/` for `OR`.
fn expression(license: &str) -> Option<String> {
    let license = license.trim();
    (!license.is_empty()).then(|| {
        license
            .split('/')
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" OR ")
    })
}

/// Returns the checksums of `Cargo.lock` by name and version. Only packages of registries have one.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.split("[[package]]").skip(1);
    let checksums = packages.filter_map(|package| {
        let value = |key: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| {
                line.strip_prefix(key)?
                    .strip_prefix(" = \"")?
                    .strip_suffix('"')
            })
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    checksums.collect()
}

/// Returns the document of an image. `binary` is the SHA-256 of the binary.
///
/// # Errors
/// Fails if the time of the build is invalid.
pub fn document(
    reference: &Reference,
    facts: &Facts,
    binary: &str,
    packages: &[Package],
) -> Result<Value, Error> {
    let own = Package {
        part: Part::Linked,
        name: "compute-federation".to_owned(),
        version: Some(facts.version.clone()),
        license: Some("Apache-2.0".to_owned()),
        sha256: Some(binary.to_owned()),
        purl: None,
    };
    let own_id = id(&own);
    let mut relationships = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": own_id,
    })];
    for package in packages {
        let (from, kind, to) = match package.part {
            Part::Linked => (own_id.clone(), "STATIC_LINK", id(package)),
            Part::Loaded => (own_id.clone(), "DYNAMIC_LINK", id(package)),
            Part::Data => (id(package), "DATA_FILE_OF", own_id.clone()),
        };
        relationships.push(json!({
            "spdxElementId": from,
            "relationshipType": kind,
            "relatedSpdxElement": to,
        }));
    }
    let packages: Vec<_> = [&own].into_iter().chain(packages).map(entry).collect();
    Ok(json!({
        "SPDXID": "SPDXRef-DOCUMENT",
        "creationInfo": {
            "created": facts.created()?,
            "creators": ["Tool: cargo-xtask-image"],
        },
        "dataLicense": "CC0-1.0",
        // A document of another binary or of another tag has another name.
        "documentNamespace": format!("{}/spdx/{}/{binary}", facts.source, reference.tag),
        "name": reference.to_string(),
        "packages": packages,
        "relationships": relationships,
        "spdxVersion": "SPDX-2.3",
    }))
}

fn entry(package: &Package) -> Value {
    let none = || "NOASSERTION".to_owned();
    let mut entry = json!({
        "SPDXID": id(package),
        "copyrightText": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": package.license.clone().unwrap_or_else(none),
        "name": package.name,
    });
    let version = package.version.as_ref().map(|version| json!(version));
    let checksums = package
        .sha256
        .as_ref()
        .map(|sha256| json!([{"algorithm": "SHA256", "checksumValue": sha256}]));
    let purl = package.purl.as_ref().map(|purl| {
        json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceLocator": purl,
            "referenceType": "purl",
        }])
    });
    if let Some(fields) = entry.as_object_mut() {
        let known = [
            ("checksums", checksums),
            ("externalRefs", purl),
            ("versionInfo", version),
        ];
        fields.extend(
            known
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
    }
    entry
}

/// Returns the identifier of a package. SPDX allows letters, digits, `.` and `-`, so other characters become their
/// codes.
fn id(package: &Package) -> String {
    let version = package.version.as_deref().unwrap_or_default();
    let name = format!("{}-{version}", package.name);
    let characters = name.trim_end_matches('-').chars().map(|c| match c {
        '.' | '-' => c.to_string(),
        c if c.is_ascii_alphanumeric() => c.to_string(),
        c => format!(".{:x}.", u32::from(c)),
    });
    format!("SPDXRef-Package-{}", characters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "adler2"
version = "2.0.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aaaa"

[[package]]
name = "api"
version = "0.1.0"
dependencies = [
 "adler2",
]

[[package]]
name = "serde_json"
version = "1.0.0+spec"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "bbbb"
"#;
    const TREE: &str = "compute-federation v0.1.0 (/src)|Apache-2.0\n\
                        api v0.1.0 (/src/api)|Apache-2.0\n\
                        serde_json v1.0.0+spec|MIT/Apache-2.0\n\
                        adler2 v2.0.1|0BSD OR MIT\n\
                        adler2 v2.0.1|0BSD OR MIT\n";

    fn packages() -> Vec<Package> {
        linked(TREE, LOCK, "1.95.0").unwrap()
    }

    #[test]
    fn linked_packages_have_the_checksums_of_the_lock_file() {
        let packages = packages();
        let names: Vec<_> = packages.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["adler2", "serde_json", "rust-std"]);
        let [adler2, serde_json, ..] = packages.as_slice() else {
            panic!("{packages:?}");
        };
        assert_eq!(adler2.sha256.as_deref(), Some("aaaa"));
        assert_eq!(adler2.purl.as_deref(), Some("pkg:cargo/adler2@2.0.1"));
        assert_eq!(serde_json.license.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(
            serde_json.purl.as_deref(),
            Some("pkg:cargo/serde_json@1.0.0%2Bspec")
        );
    }

    #[test]
    fn an_unexpected_line_is_an_error() {
        for line in ["adler2 v2.0.1", "adler2|MIT", "adler2 2.0.1|MIT"] {
            let error = linked(line, LOCK, "1.95.0").unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn each_package_of_the_document_has_a_relationship() {
        let facts = Facts {
            version: "0.1.0".to_owned(),
            revision: "0123".to_owned(),
            source: "https://example.com/compute".to_owned(),
            time: 0,
        };
        let mut packages = packages();
        packages.push(Package {
            part: Part::Loaded,
            name: "libc.so.6".to_owned(),
            version: None,
            license: None,
            sha256: Some("cccc".to_owned()),
            purl: None,
        });
        let reference = "ghcr.io/datum-cloud/compute:v0.1.0".parse().unwrap();
        let document = document(&reference, &facts, "dddd", &packages).unwrap();
        assert_eq!(document["spdxVersion"], "SPDX-2.3");
        assert_eq!(document["creationInfo"]["created"], "1970-01-01T00:00:00Z");
        let listed = document["packages"].as_array().unwrap();
        let ids: BTreeSet<_> = listed
            .iter()
            .map(|it| it["SPDXID"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), packages.len() + 1);
        for id in &ids {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            assert!(
                id.strip_prefix("SPDXRef-").unwrap().chars().all(is_valid),
                "{id}"
            );
        }
        let relationships = document["relationships"].as_array().unwrap();
        let related: BTreeSet<_> = relationships
            .iter()
            .map(|it| it["relatedSpdxElement"].as_str().unwrap())
            .collect();
        assert_eq!(related, ids);
        let kinds: BTreeSet<_> = relationships
            .iter()
            .map(|it| it["relationshipType"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            BTreeSet::from(["DESCRIBES", "DYNAMIC_LINK", "STATIC_LINK"])
        );
    }
}
