//! The fields in which two JSON values differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use serde_json::{Map, Number, Value};

/// Most fields of one comparison. The rest is one difference, at the field `(more)`.
const FIELDS_MAX: usize = 1000;
/// Keys of the elements of lists that Kubernetes treats as maps.
const LIST_KEYS: [(&str, &str); 2] = [("conditions", "type"), ("cells", "name")];

/// The path of a field. An element of a list has its key or its index in brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Returns the path of a field of the top level.
    pub(super) fn of(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    pub(super) fn child(&self, name: impl Into<String>) -> Self {
        let mut parts = self.0.clone();
        parts.push(name.into());
        Self(parts)
    }

    /// Returns the parts of the path. The key of a list element is a part in brackets.
    pub(super) fn parts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Returns the path without the indexes of list elements, so that differences can be grouped.
    #[must_use]
    pub fn without_indexes(&self) -> Self {
        let is_index = |part: &str| {
            let inner = part
                .strip_prefix('[')
                .and_then(|part| part.strip_suffix(']'));
            let is_number = |inner: &str| inner.bytes().all(|byte| byte.is_ascii_digit());
            // A namespace and a name.
            inner.is_some_and(|inner| is_number(inner) || inner.contains('/'))
        };
        let parts = self.0.iter().map(|part| match is_index(part) {
            true => "[]".to_owned(),
            false => part.clone(),
        });
        Self(parts.collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            let is_name = index > 0 && !part.starts_with('[');
            f.write_str(if is_name { "." } else { "" })?;
            // An object must not write lines of the report.
            for character in part.chars() {
                match character.is_control() {
                    true => write!(f, "{}", character.escape_default())?,
                    false => f.write_char(character)?,
                }
            }
        }
        Ok(())
    }
}

/// A field with another value on each side. `None` is an absent field. `null` is absent, too.
pub(super) type FieldDifference<'v> = (FieldPath, Option<&'v Value>, Option<&'v Value>);

/// Returns the fields in which two values differ, in the order of their paths.
pub(super) fn field_differences<'v>(
    path: &FieldPath,
    former: Option<&'v Value>,
    native: Option<&'v Value>,
) -> Vec<FieldDifference<'v>> {
    let mut found = Vec::new();
    collect(path, former, native, &mut found);
    found
}

fn collect<'v>(
    path: &FieldPath,
    former: Option<&'v Value>,
    native: Option<&'v Value>,
    found: &mut Vec<FieldDifference<'v>>,
) {
    let present = |value: Option<&'v Value>| value.filter(|value| !value.is_null());
    let (former, native) = (present(former), present(native));
    if former == native || found.len() > FIELDS_MAX {
        return;
    }
    if found.len() == FIELDS_MAX {
        found.push((path.child("(more)"), former, native));
        return;
    }
    match (former, native) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let (one, other) = (one.get(name), other.get(name));
                // Most fields are equal, and need no path.
                if one != other {
                    collect(&path.child(name.as_str()), one, other, found);
                }
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            lists(path, one, other, found);
        }
        _ => found.push((path.clone(), former, native)),
    }
}

/// Compares two lists: by the key of their elements, else by index.
fn lists<'v>(
    path: &FieldPath,
    one: &'v [Value],
    other: &'v [Value],
    found: &mut Vec<FieldDifference<'v>>,
) {
    let last = path.0.last().map(String::as_str);
    let key = LIST_KEYS
        .iter()
        .find(|(list, _)| Some(*list) == last)
        .map(|(_, key)| *key);
    // Without a key, or with the same key twice, the index names an element.
    let keyed = |list: &'v [Value]| -> Option<BTreeMap<&'v str, &'v Value>> {
        let of = |element: &'v Value| Some((element.get(key?)?.as_str()?, element));
        let by_key: BTreeMap<_, _> = list.iter().map(of).collect::<Option<_>>()?;
        (by_key.len() == list.len()).then_some(by_key)
    };
    match (keyed(one), keyed(other)) {
        (Some(one), Some(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let path = path.child(format!("[{name}]"));
                collect(
                    &path,
                    one.get(name).copied(),
                    other.get(name).copied(),
                    found,
                );
            }
        }
        _ => {
            for index in 0..one.len().max(other.len()) {
                let path = path.child(format!("[{index}]"));
                collect(&path, one.get(index), other.get(index), found);
            }
        }
    }
}

/// Returns whether a value has no content.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().all(is_empty),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

/// Returns a value as it comes back from Lua: without empty values, and with numbers as floats.
pub(super) fn in_lua(value: &Value) -> Option<Value> {
    match value {
        value if is_empty(value) => None,
        Value::Array(elements) => Some(elements.iter().filter_map(in_lua).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            let kept = fields.filter_map(|(name, field)| Some((name.clone(), in_lua(field)?)));
            Some(Value::Object(kept.collect::<Map<_, _>>()))
        }
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            Some(Value::Number(float.unwrap_or_else(|| number.clone())))
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(former: &Value, native: &Value) -> Vec<String> {
        let found = field_differences(&FieldPath::of("status"), Some(former), Some(native));
        found.iter().map(|(path, ..)| path.to_string()).collect()
    }

    #[test]
    fn fields_are_named_by_their_paths() {
        let former = json!({"a": 1, "b": {"c": 1, "d": 2}, "n": null, "list": [1, 2], "e": []});
        let native = json!({"a": 1, "b": {"c": 2}, "list": [1, 3, 4]});
        let expected = [
            "status.b.c",
            "status.b.d",
            "status.e",
            "status.list[1]",
            "status.list[2]",
        ];
        assert_eq!(paths(&former, &native), expected);
        assert!(paths(&former, &former).is_empty());
    }

    #[test]
    fn conditions_are_compared_by_type() {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status});
        let former = json!({"conditions": [condition("A", "True"), condition("B", "True")]});
        let native = json!({"conditions": [condition("B", "False"), condition("A", "True"), condition("C", "True")]});
        let expected = ["status.conditions[B].status", "status.conditions[C]"];
        assert_eq!(paths(&former, &native), expected);
        let twice = json!({"conditions": [condition("A", "True"), condition("A", "False")]});
        let expected = ["status.conditions[1].status", "status.conditions[1].type"];
        assert_eq!(paths(&former, &twice), expected);
    }

    #[test]
    fn the_number_of_fields_is_limited() {
        let list = |value: i32| Value::Array((0..5000).map(|_| json!({"a": value})).collect());
        let nested = |value: i32| json!({"y": list(value), "z": list(value)});
        let (one, other) = (nested(1), nested(2));
        let found = field_differences(&FieldPath::of("x"), Some(&one), Some(&other));
        assert_eq!(found.len(), FIELDS_MAX + 1);
        let end = found.last().map(|(path, ..)| path.to_string());
        assert_eq!(end.as_deref(), Some("x.y[1000].(more)"));
    }

    #[test]
    fn a_name_writes_no_lines() {
        let path = FieldPath::of("a\nb\u{1b}[8m");
        assert_eq!(path.to_string(), "a\\nb\\u{1b}[8m");
    }

    #[test]
    fn differences_are_grouped_without_indexes() {
        let path = FieldPath::of("status")
            .child("list")
            .child("[12]")
            .child("conditions")
            .child("[A]");
        assert_eq!(path.to_string(), "status.list[12].conditions[A]");
        assert_eq!(
            path.without_indexes().to_string(),
            "status.list[].conditions[A]"
        );
    }
}
