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

impl Entry<'_> {
    /// Returns whether this entry is of Karmada, and owns `spec.replicas`.
    fn is_karmada(&self) -> bool {
        self.manager.starts_with(FIELD_MANAGER_PREFIX)
            && self.subresource.is_empty()
            && self.fields.spec.replicas.is_some()
    }
}

/// Returns whether Karmada wrote `spec.replicas` last. An update that does not change a field does not change its
/// writer, so a number that [`retain`](super::retain) gave back keeps its writer. Entries that cannot be decoded do not
/// count.
pub(super) fn is_karmada(managed_fields: &str) -> bool {
    let mut found = false;
    let all = for_each_of(managed_fields, |entry: Entry<'_>| {
        found |= entry.is_karmada();
    });
    if all.is_ok() {
        return found;
    }
    // At least one entry cannot be decoded, so each is decoded alone.
    found = false;
    let read = for_each_of(managed_fields, |entry: &RawValue| {
        found |= from_str::<Entry<'_>>(entry.get()).is_ok_and(|entry| entry.is_karmada());
    });
    read.is_ok() && found
}
