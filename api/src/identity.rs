//! Identities that cross planes. No identity can be empty, and none has a default (I-7, I-16).

use std::fmt;

use thiserror::Error;

use crate::labels;

/// Longest value of a label, in bytes. Source: "Labels and Selectors" in the Kubernetes documentation.
const LABEL_VALUE_MAX: usize = 63;
const CLUSTER_PREFIX: &str = "cluster-";

/// The reason why a name is not a valid identity.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IdentityError {
    /// The name is empty.
    #[error("{what} is empty")]
    Empty {
        /// The identity, such as "city code".
        what: &'static str,
    },
    /// The value breaks a rule of the identity.
    #[error("{what} {value:?} is not valid: {rule}")]
    Invalid {
        /// The identity, such as "city code".
        what: &'static str,
        /// The value as it was read.
        value: String,
        /// The broken rule.
        rule: &'static str,
    },
    /// An object lacks the label that contains the identity.
    #[error("label {label} is missing")]
    LabelMissing {
        /// Key of the missing label.
        label: &'static str,
    },
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns `value` as an identity, unchanged.
            ///
            /// # Errors
            ///
            /// [`IdentityError`] when the value is empty or breaks the rule of this identity.
            pub fn new(value: impl Into<String>) -> Result<Self, IdentityError> {
                let value = value.into();
                if value.is_empty() {
                    return Err(IdentityError::Empty { what: $what });
                }
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(&value) {
                    Ok(()) => Ok(Self(value)),
                    Err(rule) => Err(IdentityError::Invalid { what: $what, value, rule }),
                }
            }

            /// Returns the name as it is on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

identity! {
    /// Bare name of a project: a DNS-1123 label, as Milo names projects.
    ProjectName, "project name", dns_label
}

identity! {
    /// Namespace on the hub that represents one project namespace: `ns-<uid>`. Each cell has a namespace of the same
    /// name.
    HubNamespace, "hub namespace", dns_label
}

identity! {
    /// City code of a placement, case preserved. It must be a valid label value.
    CityCode, "city code", label_value
}

identity! {
    /// Name of a cell: that of its Karmada Cluster. The name of a cell below a lower hub begins with the name of the
    /// Cluster that is the lower hub, and a dot. The whole name must be a label value.
    CellName, "cell name", cell_name
}

/// Separates the Clusters in the name of a cell below a lower hub. The name of a Cluster contains none.
pub const CLUSTER_SEPARATOR: char = '.';

/// Returns the Cluster of the hub through which this cell is reached: the cell itself, or the lower hub that it is below.
/// `cell` is the name of a cell.
pub fn cluster_of(cell: &str) -> &str {
    let cluster = cell.split_once(CLUSTER_SEPARATOR);
    cluster.map_or(cell, |(cluster, _)| cluster)
}

impl ProjectName {
    /// Returns the value of [`labels::UPSTREAM_CLUSTER_NAME`] that names this project.
    pub fn to_label(&self) -> String {
        format!("{CLUSTER_PREFIX}{}", self.0)
    }

    /// Decodes a project from the value of [`labels::UPSTREAM_CLUSTER_NAME`].
    ///
    /// Accepts every form that was ever written (docs/concepts/identity.md): `cluster-x`, `cluster-_x` and
    /// `cluster-org_x` all name the project `x`.
    ///
    /// # Errors
    ///
    /// [`IdentityError::Invalid`] when the prefix is missing or no project name follows it.
    pub fn from_label(value: &str) -> Result<Self, IdentityError> {
        let invalid = |rule| IdentityError::Invalid {
            what: labels::UPSTREAM_CLUSTER_NAME,
            value: value.to_owned(),
            rule,
        };
        let encoded = value
            .strip_prefix(CLUSTER_PREFIX)
            .ok_or_else(|| invalid("must begin with \"cluster-\""))?;
        let name = encoded.rsplit('_').next().unwrap_or_default();
        Self::new(name).map_err(|_| invalid("no project name follows the prefix"))
    }
}

impl HubNamespace {
    /// Precedes the UID.
    const PREFIX: &'static str = "ns-";

    /// Returns the hub namespace of the project namespace with this UID.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] when the UID is empty or cannot be part of a namespace name.
    pub fn of_project_namespace(uid: &str) -> Result<Self, IdentityError> {
        if uid.is_empty() {
            return Err(IdentityError::Empty {
                what: "uid of the project namespace",
            });
        }
        Self::new(format!("{}{uid}", Self::PREFIX))
    }

    /// Returns whether the name has the form that [`HubNamespace::of_project_namespace`] gives.
    pub fn is_of_project_namespace(&self) -> bool {
        self.as_str().starts_with(Self::PREFIX)
    }
}

impl CityCode {
    /// Returns the part of an object name that stands for this city: the code in lower case.
    pub fn name_part(&self) -> String {
        self.0.to_lowercase().replace(' ', "-")
    }
}

fn dns_label(value: &str) -> Result<(), &'static str> {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    is_label(value, edge, |c| c == '-').then_some(()).ok_or(
        "must be a DNS-1123 label: at most 63 lower-case letters, digits and '-', with a letter or digit at both ends",
    )
}

fn cell_name(value: &str) -> Result<(), &'static str> {
    let are_labels = value
        .split(CLUSTER_SEPARATOR)
        .all(|part| dns_label(part).is_ok());
    (are_labels && value.len() <= LABEL_VALUE_MAX).then_some(()).ok_or(
        "must be a DNS-1123 label, or several with dots between them: at most 63 lower-case letters, digits, '-' and '.'",
    )
}

fn label_value(value: &str) -> Result<(), &'static str> {
    let edge = |c: char| c.is_ascii_alphanumeric();
    is_label(value, edge, |c| matches!(c, '-' | '_' | '.')).then_some(()).ok_or(
        "must be a label value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

/// Returns whether the first and the last character are edge characters, and all others are edge or `inner` characters.
pub(crate) fn is_label(value: &str, edge: fn(char) -> bool, inner: fn(char) -> bool) -> bool {
    value.len() <= LABEL_VALUE_MAX
        && value.starts_with(edge)
        && value.ends_with(edge)
        && value.chars().all(|c| edge(c) || inner(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-7: every form of a label names the same project.
    #[test]
    fn every_legacy_form_of_the_cluster_label_names_the_project() {
        for label in [
            "cluster-proj-a",
            "cluster-_proj-a",
            "cluster-org_proj-a",
            "cluster-_org_proj-a",
        ] {
            assert_eq!(
                ProjectName::from_label(label).unwrap().as_str(),
                "proj-a",
                "{label}"
            );
        }
    }

    #[test]
    fn a_label_without_a_project_is_refused() {
        for label in [
            "",
            "cluster-",
            "cluster-_",
            "proj-a",
            "Cluster-proj-a",
            "cluster-Proj",
        ] {
            assert!(ProjectName::from_label(label).is_err(), "{label}");
        }
    }

    #[test]
    fn encoding_and_decoding_agree() {
        let project = ProjectName::new("single").unwrap();
        assert_eq!(project.to_label(), "cluster-single");
        assert_eq!(
            ProjectName::from_label(&project.to_label()).unwrap(),
            project
        );
    }

    /// I-13: an empty key is never a name.
    #[test]
    fn no_identity_is_ever_empty() {
        assert_eq!(
            ProjectName::new(""),
            Err(IdentityError::Empty {
                what: "project name"
            })
        );
        assert_eq!(
            CellName::new(""),
            Err(IdentityError::Empty { what: "cell name" })
        );
        assert_eq!(
            CityCode::new(""),
            Err(IdentityError::Empty { what: "city code" })
        );
        assert!(HubNamespace::of_project_namespace("").is_err());
    }

    #[test]
    fn a_city_code_must_be_a_label_value() {
        let long = "x".repeat(64);
        for city in ["New York", "-dfw", "dfw.", "münchen", long.as_str()] {
            assert!(CityCode::new(city).is_err(), "{city}");
        }
        assert_eq!(CityCode::new("DFW").unwrap().name_part(), "dfw");
    }

    #[test]
    fn a_cell_is_named_after_the_clusters_that_lead_to_it() {
        for (cell, cluster) in [("dfw1", "dfw1"), ("dfw.a1", "dfw"), ("us.dfw.a-1", "us")] {
            assert_eq!(CellName::new(cell).unwrap().as_str(), cell);
            assert_eq!(cluster_of(cell), cluster);
        }
        let long = ["dfw", &"x".repeat(60)].join(".");
        for cell in [
            ".",
            "dfw.",
            ".a1",
            "dfw..a1",
            "DFW.a1",
            "dfw.a1-",
            long.as_str(),
        ] {
            assert!(CellName::new(cell).is_err(), "{cell}");
        }
    }

    #[test]
    fn hub_namespaces_derive_from_the_uid() {
        let namespace =
            HubNamespace::of_project_namespace("0f6f6d3a-6dd9-4f5f-8c8b-0d2c9c1f0d11").unwrap();
        assert_eq!(
            namespace.as_str(),
            "ns-0f6f6d3a-6dd9-4f5f-8c8b-0d2c9c1f0d11"
        );
        assert!(namespace.is_of_project_namespace());
        assert!(
            !HubNamespace::new("karmada-system")
                .unwrap()
                .is_of_project_namespace()
        );
    }
}
