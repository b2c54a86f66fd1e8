//! Reading parts of a JSON text without building a tree of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::InterpretError;

/// The fields of a JSON object, each as it was written.
pub(crate) type RawFields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Reads `text` as a `T`. `field` is where the text stands, for the error.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    field: &str,
    text: &'a str,
) -> Result<T, InterpretError> {
    serde_json::from_str(text).or_else(|_| parse_with_path(field, text))
}

/// Reads once more, keeping track of the path: that costs time, which only an error is worth.
fn parse_with_path<'a, T: Deserialize<'a>>(
    field: &str,
    text: &'a str,
) -> Result<T, InterpretError> {
    let deserializer = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => field.to_owned(),
            path if field.is_empty() => path,
            path => format!("{field}.{path}"),
        };
        InterpretError::new(path, error.inner())
    })
}

/// Whether two JSON texts say the same.
pub(crate) fn same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    match (value(one), value(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
