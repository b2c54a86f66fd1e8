//! The writer of `spec.replicas` in a cell, from the object's `managedFields`.

use std::borrow::Cow;

use api::decode::{for_each_of, from_str};
use api::karmada::FIELD_MANAGER_PREFIX;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// An entry of `managedFields`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(rename = "fieldsV1", default)]
    fields: OwnedFields,
}

#[derive(Default, Deserialize)]
struct OwnedFields {
    #[serde(rename = "f:spec", default)]
    spec: OwnedSpec,
}

#[derive(Default, Deserialize)]
struct OwnedSpec {
    #[serde(rename = "f:replicas")]
    replicas: Option<IgnoredAny>,
}

/// Returns whether Karmada wrote `spec.replicas` last. An update that does not change a field does not change its
/// writer, so a number that [`retain`](super::retain) gave back keeps its writer. Entries that cannot be decoded do not
/// count.
pub(super) fn is_karmada(managed_fields: &str) -> bool {
    let mut found = false;
    let read = for_each_of(managed_fields, |entry: &RawValue| {
        if let Ok(entry) = from_str::<Entry<'_>>(entry.get()) {
            found |= entry.manager.starts_with(FIELD_MANAGER_PREFIX)
                && entry.subresource.is_empty()
                && entry.fields.spec.replicas.is_some();
        }
    });
    read.is_ok() && found
}
