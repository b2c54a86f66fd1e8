//! Names of images in registries.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::Error;

/// The name of an image in a registry, and its tag: `ghcr.io/datum-cloud/compute:v0.1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The registry and the repository.
    pub name: String,
    /// The tag.
    pub tag: String,
}

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// Parses `NAME:TAG`. The name must have a registry, because container engines complete a name without a registry
    /// in different ways.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::Invalid(format!(
                "image {text:?}: write REGISTRY/NAME:TAG, such as ghcr.io/datum-cloud/compute:v0.1.0"
            ))
        };
        let (name, tag) = text.rsplit_once(':').ok_or_else(invalid)?;
        let (registry, repository) = name.split_once('/').ok_or_else(invalid)?;
        let is_registry =
            registry.contains(['.', ':']) || registry == "localhost" && !repository.is_empty();
        let is_repository = repository.split('/').all(|part| {
            !part.is_empty()
                && part.chars().all(|c| {
                    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-')
                })
        });
        let is_tag = (1..=128).contains(&tag.len())
            && !tag.starts_with(['.', '-'])
            && tag
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if !(is_registry && is_repository && is_tag) {
            return Err(invalid());
        }
        Ok(Self {
            name: name.to_owned(),
            tag: tag.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_a_registry_a_name_and_a_tag() {
        for text in [
            "ghcr.io/datum-cloud/compute:v0.1.0",
            "localhost:5000/compute:dev",
            "localhost/compute:dev",
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
        }
        for text in [
            "compute",
            "compute:v1",
            "ghcr.io/compute",
            "localhost:5000/compute",
            "ghcr.io/compute:",
            "ghcr.io//compute:v1",
            "ghcr.io/Compute:v1",
            "ghcr.io/compute:-v1",
            "ghcr.io/compute@sha256:00",
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains("REGISTRY/NAME:TAG"), "{text}: {error}");
        }
    }
}
