//! Decoding of parts of a JSON text without building a tree of values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::InterpretError;

/// The JSON text of each field of an object, by name.
pub(crate) type RawFields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Decodes `text`. `field` is the path of the text, for error messages.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    field: &str,
    text: &'a str,
) -> Result<T, InterpretError> {
    serde_json::from_str(text).or_else(|_| parse_with_path(field, text))
}

/// Decodes `text` again, and records the path of the error. The second decoding is slower, so it runs only after an
/// error.
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

/// Returns whether two JSON texts have the same value.
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
