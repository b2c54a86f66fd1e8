//! Versions of sources, and the annotations about them.

use std::collections::BTreeMap;
use std::fmt;

use api::annotations;
use api::references::Source;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A version of a source: its UID and its resource version, displayed as `uid/version`. It identifies the content, and
/// says nothing about it: a digest of a Secret could be compared with digests of guesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct SourceVersion(String);

impl SourceVersion {
    /// Returns the version of a source with this metadata. Returns `None` for an object that no API server has stored.
    pub(crate) fn of(metadata: &ObjectMeta) -> Option<Self> {
        let (uid, version) = (metadata.uid.as_ref()?, metadata.resource_version.as_ref()?);
        Some(Self(format!("{uid}/{version}")))
    }

    /// Returns the version that a companion was copied from.
    pub(crate) fn of_companion(metadata: &ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_ref()?;
        let version = annotations.get(annotations::SOURCE_VERSION)?;
        Some(Self(version.clone()))
    }

    /// Returns since which version of its source the content of a companion is as it is. A former version of this
    /// program writes the content without this annotation, so it counts only for the version that it was written with.
    pub(crate) fn of_content(metadata: &ObjectMeta) -> Option<Self> {
        let copied = Self::of_companion(metadata)?;
        let annotations = metadata.annotations.as_ref()?;
        let since = annotations.get(annotations::CONTENT_VERSION);
        let since = since.and_then(|text| text.split_once(' '));
        let since = since.filter(|(_, with)| *with == copied.0);
        Some(since.map_or_else(|| copied.clone(), |(since, _)| Self(since.to_owned())))
    }

    /// Returns the annotation of a companion of version `copied` whose content is as it is since this version.
    pub(crate) fn as_content(&self, copied: &Self) -> String {
        format!("{self} {copied}")
    }

    /// Returns whether this version is the other one or a later one. All objects of an API server share one counter of
    /// resource versions, so a source that was made again has a later one. Two versions of which one is no number are
    /// only compared for equality.
    pub(crate) fn is_at_least(&self, other: &Self) -> bool {
        let number = |version: &Self| version.0.rsplit('/').next()?.parse::<u64>().ok();
        match (number(self), number(other)) {
            (Some(number), Some(least)) => number >= least,
            _ => self == other,
        }
    }
}

impl fmt::Display for SourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which template and which versions of its sources the expected data were determined for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct MeantVersions {
    /// The hash of the template, as computed in the project.
    pub(crate) template: String,
    /// The least version of each source, by `Kind/name`.
    pub(crate) sources: BTreeMap<String, SourceVersion>,
}

impl MeantVersions {
    /// Reads the annotation. Returns `None` if it is absent or malformed.
    pub(crate) fn of(metadata: &ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(annotations::REFERENCED_DATA_VERSIONS)?).ok()
    }
}

/// Returns the sources in the annotation of expected data. Returns `None` if the annotation is absent or malformed: the
/// data have not been determined.
pub(crate) fn expected(metadata: &ObjectMeta) -> Option<Vec<Source>> {
    let annotations = metadata.annotations.as_ref()?;
    let texts = annotations.get(annotations::EXPECTED_REFERENCED_DATA)?;
    let texts: Vec<String> = serde_json::from_str(texts).ok()?;
    texts.iter().map(|text| Source::parse(text)).collect()
}

/// Returns whether the annotation of expected data contains a source. A companion can have a thousand users with long
/// lists, so the list is not decoded: a name needs no escapes.
pub(crate) fn lists(metadata: &ObjectMeta, source: &Source) -> bool {
    let annotations = metadata.annotations.as_ref();
    let list = annotations.and_then(|it| it.get(annotations::EXPECTED_REFERENCED_DATA));
    list.is_some_and(|list| list.contains(&format!("\"{source}\"")))
}

/// Why the data of a WorkloadDeployment cannot be determined. Its annotation contains it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Problem {
    /// Reads the annotation. Returns `None` if it is absent or malformed.
    pub(crate) fn of(metadata: &ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(annotations::REFERENCED_DATA_ERROR)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(text: &str) -> SourceVersion {
        SourceVersion(text.to_owned())
    }

    #[test]
    fn a_later_version_and_a_source_that_was_made_again_are_enough() {
        for (have, least, expected) in [
            ("a/10", "a/10", true),
            ("a/11", "a/10", true),
            ("a/9", "a/10", false),
            ("b/12", "a/10", true),
            ("b/9", "a/10", false),
            ("a/x", "a/x", true),
            ("a/x", "a/10", false),
        ] {
            assert_eq!(
                version(have).is_at_least(&version(least)),
                expected,
                "{have}"
            );
        }
    }

    #[test]
    fn the_version_of_the_content_counts_for_its_version_of_the_source() {
        let of = |source: &str, content: Option<&str>| {
            let mut annotations = json!({annotations::SOURCE_VERSION: source});
            if let Some(content) = content {
                annotations[annotations::CONTENT_VERSION] = json!(content);
            }
            let metadata: ObjectMeta =
                serde_json::from_value(json!({"annotations": annotations})).unwrap();
            SourceVersion::of_content(&metadata).unwrap()
        };
        let written = version("u/5").as_content(&version("u/9"));
        assert_eq!(of("u/9", Some(&written)), version("u/5"));
        // Another version of this program has written the content since.
        assert_eq!(of("u/12", Some(&written)), version("u/12"));
        assert_eq!(of("u/9", None), version("u/9"));
        assert_eq!(of("u/9", Some("u/5")), version("u/9"));
    }

    #[test]
    fn malformed_annotations_are_not_determined() {
        let metadata = |key: &str, value: &str| -> ObjectMeta {
            serde_json::from_value(json!({"annotations": {key: value}})).unwrap()
        };
        let of = |value| expected(&metadata(annotations::EXPECTED_REFERENCED_DATA, value));
        assert_eq!(of("[]"), Some(Vec::new()));
        assert_eq!(of(r#"["ConfigMap/a","Secret/b"]"#).unwrap().len(), 2);
        for text in ["", "{}", r#"["Pod/a"]"#, "[1]"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(expected(&ObjectMeta::default()), None);
        let list = metadata(
            annotations::EXPECTED_REFERENCED_DATA,
            r#"["ConfigMap/a","Secret/bc"]"#,
        );
        for (source, is_listed) in [
            ("ConfigMap/a", true),
            ("Secret/bc", true),
            ("Secret/b", false),
            ("Secret/a", false),
        ] {
            assert_eq!(
                lists(&list, &Source::parse(source).unwrap()),
                is_listed,
                "{source}"
            );
        }
        let of = |value| MeantVersions::of(&metadata(annotations::REFERENCED_DATA_VERSIONS, value));
        assert!(of(r#"{"template":"v1-a","sources":{"ConfigMap/a":"u/1"}}"#).is_some());
        assert!(of("{}").is_none());
    }
}
