//! Fields of the Go manager that have no meaning here. A field that is not set, or whose value changes nothing, is
//! accepted with a warning. Any other value is refused with the reason. Each function returns whether the field was
//! given.

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

pub(super) fn secret_ref<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    unset(
        field,
        "certificates are read from files only: mount the Secret, and set certDir",
    )
}

pub(super) fn projection<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    unset(
        field,
        "every project is served, not only those of active consumers: remove the field",
    )
}

pub(super) fn location_source<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    empty(
        field,
        "cities come from LocationBindings only: remove the field",
    )
}

pub(super) fn feature_flags<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct FeatureFlags {
        #[serde(default)]
        enable_referenced_data_gate: bool,
    }
    match Option::<FeatureFlags>::deserialize(field)?.unwrap_or_default() {
        FeatureFlags {
            enable_referenced_data_gate: false,
        } => Ok(true),
        FeatureFlags { .. } => Err(Error::custom(
            "enableReferencedDataGate does not exist here: remove it, or set it to false",
        )),
    }
}

/// The limits of referenced data have an effect only with the feature flag, which is refused.
pub(super) fn referenced_data<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(field)?.is_some())
}

/// Refuses every value but null.
fn unset<'de, D: Deserializer<'de>>(field: D, reason: &str) -> Result<bool, D::Error> {
    match Option::<IgnoredAny>::deserialize(field)? {
        None => Ok(true),
        Some(_) => Err(Error::custom(reason)),
    }
}

/// Refuses every text but the empty one.
fn empty<'de, D: Deserializer<'de>>(field: D, reason: &str) -> Result<bool, D::Error> {
    match super::text(field)? {
        None => Ok(true),
        Some(_) => Err(Error::custom(reason)),
    }
}
