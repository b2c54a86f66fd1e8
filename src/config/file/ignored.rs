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

/// A limit of the size of ConfigMaps and Secrets. The limits are fixed here, to the defaults of the Go manager.
pub(super) fn limit<'de, D: Deserializer<'de>>(field: D) -> Result<bool, D::Error> {
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
