//! Users of the front, and the impersonation headers for them.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Context;
use api::milo::RESOURCE_MANAGER_GROUP;
use api::rights::MANAGER_USER;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::rights::WEBHOOK_USER;
pub use api::milo::{PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE};

/// A user of the front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MiloUser {
    /// The name.
    pub name: String,
    /// The UID. An empty UID is not sent.
    pub uid: String,
    /// The groups. API servers add `system:authenticated`.
    pub groups: Vec<String>,
    /// The user's own Extra. Keys without values are lost. White space around a value is lost too.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl MiloUser {
    /// Creates a user without groups and without Extra.
    pub fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the same user with one additional Extra key.
    #[must_use]
    pub fn with_extra(mut self, key: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.extra.insert(key.to_owned(), values);
        self
    }

    /// Returns a user with all rights.
    pub fn administrator() -> Self {
        Self {
            groups: vec!["system:masters".to_owned()],
            ..Self::new("administrator", "administrator-uid")
        }
    }

    /// Returns the user of the management controllers. It has the rights of the roles in `deploy/`.
    pub fn management() -> Self {
        Self::new(MANAGER_USER, "compute-manager-uid")
    }

    /// Returns the user of a webhook server without management controllers. It has the rights of the roles in
    /// `deploy/`.
    pub fn webhook_server() -> Self {
        Self::new(WEBHOOK_USER, "compute-webhook-uid")
    }

    /// Returns the impersonation headers of this user, for a project or for no project.
    ///
    /// Keys are percent-encoded, including upper-case letters. An API server lower-cases a key before it decodes the
    /// key, so only encoded letters keep their case. Values are sent as raw bytes, because an API server does not
    /// decode them.
    pub(super) fn impersonation(&self, project: Option<&str>) -> anyhow::Result<HeaderMap> {
        let mut extra = self.extra.clone();
        for key in [PARENT_TYPE, PARENT_NAME, PARENT_API_GROUP] {
            extra.remove(key);
        }
        if let Some(project) = project {
            let group = RESOURCE_MANAGER_GROUP;
            for (key, value) in [
                (PARENT_TYPE, "Project"),
                (PARENT_NAME, project),
                (PARENT_API_GROUP, group),
            ] {
                extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        }

        let mut headers = HeaderMap::new();
        let mut append = |name: &str, value: &str| {
            let header = HeaderName::from_bytes(name.as_bytes()).context("not a header")?;
            let value = HeaderValue::from_bytes(value.as_bytes());
            let value = value.with_context(|| format!("{name}: not a header's value"))?;
            headers.append(header, value);
            anyhow::Ok(())
        };
        append("impersonate-user", &self.name)?;
        if !self.uid.is_empty() {
            append("impersonate-uid", &self.uid)?;
        }
        for group in &self.groups {
            append("impersonate-group", group)?;
        }
        for (key, values) in &extra {
            let header = format!("impersonate-extra-{}", encoded(key));
            for value in values {
                append(&header, value)?;
            }
        }
        Ok(headers)
    }
}

/// Percent-encodes all bytes except lower-case letters, digits and the symbols that header names allow.
fn encoded(key: &str) -> String {
    let mut encoded = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02x}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'h>(headers: &'h HeaderMap, name: &str) -> Vec<&'h [u8]> {
        headers
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect()
    }

    #[test]
    fn a_user_in_a_project() {
        let mut user = MiloUser::new("ada@example.com", "7")
            .with_extra("example.com/Team é", &["b", "a", "ë"])
            .with_extra(PARENT_NAME, &["forged", "twice"]);
        user.groups = vec!["two".into(), "one".into()];
        let headers = user.impersonation(Some("p1")).unwrap();
        for (name, expected) in [
            ("impersonate-user", vec!["ada@example.com"]),
            ("impersonate-uid", vec!["7"]),
            ("impersonate-group", vec!["two", "one"]),
            (
                "impersonate-extra-example.com%2f%54eam%20%c3%a9",
                vec!["b", "a", "ë"],
            ),
            (
                "impersonate-extra-iam.miloapis.com%2fparent-type",
                vec!["Project"],
            ),
            (
                "impersonate-extra-iam.miloapis.com%2fparent-name",
                vec!["p1"],
            ),
            (
                "impersonate-extra-iam.miloapis.com%2fparent-api-group",
                vec!["resourcemanager.miloapis.com"],
            ),
        ] {
            let expected: Vec<_> = expected.into_iter().map(str::as_bytes).collect();
            assert_eq!(values(&headers, name), expected, "{name}");
        }
    }

    #[test]
    fn a_user_at_the_root_has_no_parent() {
        let user = MiloUser::new("ada", "").with_extra(PARENT_NAME, &["forged"]);
        let headers = user.impersonation(None).unwrap();
        let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["impersonate-user"]);
    }

    #[test]
    fn a_value_that_is_no_header_value_is_refused() {
        let user = MiloUser::new("ada", "7").with_extra("key", &["two\nlines"]);
        assert!(user.impersonation(None).is_err());
    }
}
