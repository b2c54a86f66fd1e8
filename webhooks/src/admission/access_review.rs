//! The access reviews of admission: may the requester use a network, or read a ConfigMap or a Secret?

use std::collections::BTreeMap;
use std::sync::Arc;

use api::references::SourceKind;
use serde::Serialize;

use super::user_info::UserInfo;

/// An access review. The review checks whether the requester has the right to an object.
#[derive(Clone, Debug)]
pub struct AccessReview {
    /// The requester. All reviews of one request share it.
    pub requester: Arc<Requester>,
    /// Namespace of the Workload. The object is in the same namespace.
    pub namespace: String,
    /// Kind of the object.
    pub kind: UsedKind,
    /// Name of the object.
    pub name: String,
}

/// A kind of objects that a Workload uses with the rights of its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UsedKind {
    /// A network. The requester needs the verb `use`.
    Network,
    /// A ConfigMap or a Secret. The requester needs the verb `get`.
    Data(SourceKind),
}

impl UsedKind {
    /// Returns the verb that the requester needs.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Network => "use",
            Self::Data(_) => "get",
        }
    }

    /// Returns API group, version and resource.
    const fn resource(self) -> [&'static str; 3] {
        match self {
            Self::Network => ["networking.datumapis.com", "v1alpha", "networks"],
            Self::Data(SourceKind::ConfigMap) => ["", "v1", "configmaps"],
            Self::Data(SourceKind::Secret) => ["", "v1", "secrets"],
        }
    }
}

/// The requester in an access review.
#[derive(Debug)]
pub struct Requester {
    /// Name of the user.
    pub username: String,
    /// `spec` as JSON, without the fields that differ between reviews and without the last brace.
    spec: Box<str>,
}

/// The fields of the requester in `spec` of a SubjectAccessReview.
#[derive(Serialize)]
struct RequesterFields<'a> {
    user: &'a str,
    uid: &'a str,
    groups: &'a [String],
    extra: &'a BTreeMap<String, Vec<String>>,
}

/// `resourceAttributes` in `spec` of a SubjectAccessReview.
#[derive(Serialize)]
struct ResourceAttributes<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    verb: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Requester {
    /// Encodes the requester with every claim, because Milo's authorizer bases its decision on the claims
    /// (docs/concepts/milo.md).
    pub(super) fn new(user: &UserInfo) -> Self {
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = user;
        let fields = RequesterFields {
            user: username,
            uid,
            groups,
            extra,
        };
        // The serialization of texts cannot fail.
        let mut spec = serde_json::to_string(&fields).unwrap_or_default();
        spec.pop();
        Self {
            username: username.clone(),
            spec: spec.into(),
        }
    }

    /// Returns an upper bound of the size of a review of an object with one of these names, in bytes.
    pub(super) fn review_bytes<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> usize {
        /// Size of the other parts of a review, in bytes.
        const OTHER: usize = 512;
        /// Most bytes that one byte of a text needs in JSON, as in `\u0001`.
        const ESCAPED: usize = 6;
        let longest = names.into_iter().map(str::len).max();
        self.answered_bytes() + ESCAPED * longest.unwrap_or_default() + OTHER
    }

    /// Returns an upper bound of the size of the requester in the answer of an API server, in bytes. An API server is
    /// written in Go, which escapes more characters than serde.
    fn answered_bytes(&self) -> usize {
        /// Additional bytes of an escape such as `\u003c`.
        const ESCAPE: usize = 5;
        // U+2028 and U+2029 start with the byte 0xe2.
        let is_escaped = |byte: &u8| matches!(*byte, b'<' | b'>' | b'&' | 0xe2);
        let escaped = self.spec.bytes().filter(is_escaped).count();
        self.spec.len() + ESCAPE * escaped
    }
}

impl AccessReview {
    /// Returns the size of the largest answer that is read, in bytes. An API server repeats the review, and adds
    /// `metadata.managedFields` with the names of all claims, and the decision.
    pub fn answer_max(&self) -> usize {
        /// Upper bound of the size of the decision, in bytes.
        const DECISION: usize = 64 << 10;
        2 * self.requester.review_bytes([self.name.as_str()]) + DECISION
    }

    /// Returns the review as JSON: a `SubjectAccessReview` of `authorization.k8s.io/v1`. Call this just before the
    /// review is sent, because the JSON contains a copy of the requester.
    pub fn body(&self) -> Vec<u8> {
        let [group, version, resource] = self.kind.resource();
        let attributes = ResourceAttributes {
            group,
            version,
            resource,
            verb: self.kind.verb(),
            namespace: &self.namespace,
            name: &self.name,
        };
        let attributes = serde_json::to_string(&attributes).unwrap_or_default();
        let parts = [
            r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{},"spec":"#,
            &self.requester.spec,
            r#","resourceAttributes":"#,
            &attributes,
            "}}",
        ];
        parts.concat().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_review_has_every_attribute_of_the_requester() {
        let values = |values: &[&str]| {
            values
                .iter()
                .map(|&value| value.to_owned())
                .collect::<Vec<_>>()
        };
        let extra = BTreeMap::from([
            ("Example.com/Ünï".to_owned(), values(&["b", "a", "b", ""])),
            ("iam.miloapis.com/parent-name".to_owned(), values(&["p1"])),
        ]);
        for extra in [extra, BTreeMap::new()] {
            let user = UserInfo {
                username: "a\"da".to_owned(),
                uid: "7".to_owned(),
                groups: values(&["z", "a"]),
                extra: extra.clone(),
            };
            let review = AccessReview {
                requester: Arc::new(Requester::new(&user)),
                namespace: "default".to_owned(),
                kind: UsedKind::Network,
                name: "\u{1}".repeat(100),
            };
            let body = review.body();
            let bytes = review.requester.review_bytes(["", &review.name]);
            assert!(body.len() <= bytes, "{bytes} {}", body.len());
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                body,
                json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "metadata": {},
                    "spec": {
                        "user": "a\"da", "uid": "7", "groups": ["z", "a"], "extra": extra,
                        "resourceAttributes": {
                            "group": "networking.datumapis.com", "version": "v1alpha", "resource": "networks",
                            "verb": "use", "namespace": "default", "name": review.name,
                        },
                    },
                })
            );
        }
    }

    #[test]
    fn each_kind_is_asked_about_with_its_resource_and_verb() {
        let requester = Arc::new(Requester::new(&UserInfo::default()));
        for (kind, group, version, resource, verb) in [
            (
                UsedKind::Network,
                "networking.datumapis.com",
                "v1alpha",
                "networks",
                "use",
            ),
            (
                UsedKind::Data(SourceKind::ConfigMap),
                "",
                "v1",
                "configmaps",
                "get",
            ),
            (
                UsedKind::Data(SourceKind::Secret),
                "",
                "v1",
                "secrets",
                "get",
            ),
        ] {
            let review = AccessReview {
                requester: Arc::clone(&requester),
                namespace: "default".to_owned(),
                kind,
                name: "n".to_owned(),
            };
            let body: Value = serde_json::from_slice(&review.body()).unwrap();
            assert_eq!(
                body["spec"]["resourceAttributes"],
                json!({
                    "group": group, "version": version, "resource": resource, "verb": verb, "namespace": "default",
                    "name": "n",
                })
            );
        }
    }
}
