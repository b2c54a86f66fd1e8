//! Decides which WorkloadDeployments the companions of a source name.

use std::collections::BTreeSet;

use api::references::Source;
use api::{HubNamespace, annotations, finalizers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::version::{expected, lists};
use crate::objects::recorded_hub_namespace;

/// The WorkloadDeployments of one namespace, from a cache or from the API server of the project.
pub(super) struct Users<'a> {
    pub(super) deployments: Vec<&'a ObjectMeta>,
    pub(super) source: &'a Source,
    /// The names of those that are being taken out of the companions of the source.
    pub(super) releasing: &'a BTreeSet<String>,
}

impl Users<'_> {
    /// Returns those that list the source and have their copy in the hub namespace, as `namespace/name`.
    pub(super) fn of(&self, hub_namespace: &HubNamespace) -> BTreeSet<String> {
        let listing = self.staying().filter(|it| {
            recorded_hub_namespace(it) == Some(hub_namespace.as_str()) && lists(it, self.source)
        });
        listing.map(full_name).collect()
    }

    /// Returns whether one of those that may use the source may list it: its list cannot be read, or is about to be
    /// written again.
    pub(super) fn may_have_more(&self, may_use: impl Fn(&ObjectMeta) -> bool) -> bool {
        let mut staying = self.staying();
        staying.any(|it| expected(it).is_none() && (has_list(it) || is_held(it)) && may_use(it))
    }

    fn staying(&self) -> impl Iterator<Item = &ObjectMeta> {
        let all = self.deployments.iter().copied();
        all.filter(|it| !self.is_releasing(it) && !has_ended(it))
    }

    fn is_releasing(&self, metadata: &ObjectMeta) -> bool {
        let name = metadata.name.as_ref();
        name.is_some_and(|name| self.releasing.contains(name))
    }
}

/// Returns `namespace/name` of an object.
pub(super) fn full_name(metadata: &ObjectMeta) -> String {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

/// Returns whether a WorkloadDeployment is being deleted, and its copy on the hub is gone. This is never undone.
pub(super) fn has_ended(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && !has(metadata, finalizers::FEDERATOR)
}

fn is_held(metadata: &ObjectMeta) -> bool {
    has(metadata, finalizers::REFERENCED_DATA)
}

fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|it| it == finalizer)
}

fn has_list(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(annotations::EXPECTED_REFERENCED_DATA))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::object;
    use api::references::SourceKind;

    #[test]
    fn those_that_list_the_source_are_named_until_their_copy_is_gone() {
        let both = [finalizers::FEDERATOR, finalizers::REFERENCED_DATA];
        let own = [finalizers::REFERENCED_DATA];
        let deployment =
            |name: &str, list: Option<&str>, namespace: &str, ends: bool, held: &[&str]| {
                let mut metadata = json!({
                    "namespace": "default", "name": name, "finalizers": held,
                    "annotations": {annotations::FEDERATION_NAMESPACE: namespace},
                    "deletionTimestamp": ends.then_some("2026-11-21T10:00:00Z"),
                });
                if let Some(list) = list {
                    metadata["annotations"][annotations::EXPECTED_REFERENCED_DATA] = json!(list);
                }
                object::<ObjectMeta>(metadata)
            };
        let list = Some(r#"["Secret/a"]"#);
        let deployments = [
            deployment("lists", list, "ns-1", false, &both),
            deployment("ends", list, "ns-1", true, &both),
            deployment("has-ended", list, "ns-1", true, &own),
            deployment("elsewhere", list, "ns-2", false, &both),
            deployment("another", Some(r#"["Secret/b"]"#), "ns-1", false, &both),
            deployment("new", None, "ns-1", false, &[finalizers::FEDERATOR]),
            deployment("released", list, "ns-1", false, &both),
        ];
        let users = |deployments: &[ObjectMeta]| {
            let users = Users {
                deployments: deployments.iter().collect(),
                source: &Source::new(SourceKind::Secret, "a"),
                releasing: &BTreeSet::from(["released".to_owned()]),
            };
            let named = users.of(&HubNamespace::new("ns-1").unwrap());
            (
                named.into_iter().collect::<Vec<_>>().join(" "),
                users.may_have_more(|_| true),
            )
        };
        assert_eq!(
            users(&deployments),
            ("default/ends default/lists".to_owned(), false)
        );
        for (list, held, may_list) in [
            (Some("{"), &[][..], true),
            (None, &both, true),
            (Some("[]"), &both, false),
        ] {
            let unread = [deployment("unread", list, "ns-1", false, held)];
            assert_eq!(users(&unread), (String::new(), may_list), "{list:?}");
        }
        assert_eq!(
            users(&[deployment("ended", Some("{"), "ns-1", true, &own)]),
            (String::new(), false)
        );
    }
}
