//! The two kinds of companions.

use api::labels;
use api::references::{Source, SourceKind};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::sources::Content;
use crate::runtime::ReconcileError;
use crate::runtime::write::{Collection, Object};

/// Reads the metadata of the object that has the kind and the name of a source.
///
/// # Errors
///
/// The errors of [`Collection::read_metadata`].
pub(crate) async fn read_metadata(
    client: &Client,
    namespace: &str,
    source: &Source,
) -> Result<Option<ObjectMeta>, ReconcileError> {
    let name = &source.name;
    Ok(match source.kind {
        SourceKind::ConfigMap => {
            let all = Collection::<ConfigMap>::new(client, namespace, None);
            all.read_metadata(name).await?.map(|it| it.metadata)
        }
        SourceKind::Secret => {
            let all = Collection::<Secret>::new(client, namespace, None);
            all.read_metadata(name).await?.map(|it| it.metadata)
        }
    })
}

/// Returns whether an object of the hub is a companion.
pub(crate) fn is_companion(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(labels::REFERENCED_DATA))
}

/// A kind that has companions.
pub(super) trait Companion:
    Object<Scope = NamespaceResourceScope> + Default + Serialize
{
    /// The parts that only the controller writes.
    const OWN: &'static [&'static str];

    /// Returns the source, if it is of this kind.
    fn from_source(source: Content) -> Option<Self>;

    /// Returns the fields that a companion has from its source.
    fn content(&self) -> Map<String, Value>;
}

impl Companion for ConfigMap {
    const OWN: &'static [&'static str] = &["/data", "/binaryData"];

    fn from_source(source: Content) -> Option<Self> {
        match source {
            Content::ConfigMap(it) => Some(it),
            Content::Secret(_) => None,
        }
    }

    fn content(&self) -> Map<String, Value> {
        with_fields([
            ("data", self.data.as_ref().map(|it| json!(it))),
            ("binaryData", self.binary_data.as_ref().map(|it| json!(it))),
        ])
    }
}

impl Companion for Secret {
    const OWN: &'static [&'static str] = &["/data"];

    fn from_source(source: Content) -> Option<Self> {
        match source {
            Content::Secret(it) => Some(it),
            Content::ConfigMap(_) => None,
        }
    }

    fn content(&self) -> Map<String, Value> {
        with_fields([
            ("data", self.data.as_ref().map(|it| json!(it))),
            ("type", self.type_.as_ref().map(|it| json!(it))),
        ])
    }
}

/// Returns the fields that have a value.
fn with_fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    let present = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.collect()
}
