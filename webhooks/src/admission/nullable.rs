//! Decoding of fields that may be null.

use serde::{Deserialize, Deserializer};

/// Decodes null as the default value. Kubernetes decodes null in the same way.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    field: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(field).map(Option::unwrap_or_default)
}
