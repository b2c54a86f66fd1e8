//! Decoding of parts of a JSON text without building a tree of values.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::InterpretError;
use api::decode::{Strict, from_str};

/// Decodes `text`. `field` is the path of the text, for error messages.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    field: &str,
    text: &'a str,
) -> Result<T, InterpretError> {
    match from_str(text) {
        Ok(value) => Ok(value),
        Err(_) => parse_with_path(field, text),
    }
}

/// Decodes `text` again, and records the path of the error. The second decoding is slower, so it runs only after an
/// error.
fn parse_with_path<'a, T: Deserialize<'a>>(
    field: &str,
    text: &'a str,
) -> Result<T, InterpretError> {
    let deserializer = &mut serde_json::Deserializer::from_str(text);
    let decoded = serde_path_to_error::deserialize::<_, Strict<T>>(deserializer);
    decoded.map(|Strict(value)| value).map_err(|error| {
        let (path, problem) = (error.path(), error.inner());
        match (path.iter().next(), field) {
            (None, field) => InterpretError::new(field, problem),
            (Some(_), "") => InterpretError::new(path, problem),
            (Some(_), field) => InterpretError::new(format_args!("{field}.{path}"), problem),
        }
    })
}

/// Returns whether two JSON texts have the same value. The order of the fields of an object does not matter. If an
/// object has a field twice, the last one counts.
///
/// The comparison builds no tree of values, because such a tree can have fifty times the size of its text. It compares
/// a digest of each text. The keys of the digests are random, so nobody can choose two texts with the same digest.
pub(crate) fn same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let keys = RandomState::new();
    let digest = |text| {
        let mut json = serde_json::Deserializer::from_str(text);
        let digest = Digest(&keys).deserialize(&mut json).ok()?;
        json.end().ok().map(|()| digest)
    };
    digest(one).is_some_and(|one| digest(other) == Some(one))
}

/// Computes the digest of one JSON value.
#[derive(Clone, Copy)]
struct Digest<'k>(&'k RandomState);

impl<'de> DeserializeSeed<'de> for Digest<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u64, D::Error> {
        json.deserialize_any(self)
    }
}

impl Digest<'_> {
    /// Returns the digest of a value without parts. `kind` differs for each kind of value.
    fn of(self, kind: u8, value: impl Hash) -> u64 {
        self.0.hash_one((kind, value))
    }
}

impl<'de> Visitor<'de> for Digest<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(self.of(0, ()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<u64, E> {
        Ok(self.of(1, value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<u64, E> {
        Ok(self.of(2, value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<u64, E> {
        Ok(self.of(3, value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<u64, E> {
        // 0.0 and -0.0 are the same number.
        Ok(self.of(4, (value + 0.0).to_bits()))
    }

    fn visit_str<E>(self, value: &str) -> Result<u64, E> {
        Ok(self.of(5, value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<u64, A::Error> {
        let mut list = self.0.build_hasher();
        6_u8.hash(&mut list);
        while let Some(element) = elements.next_element_seed(self)? {
            element.hash(&mut list);
        }
        Ok(list.finish())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<u64, A::Error> {
        let mut object: Vec<(u64, u64)> = Vec::new();
        while let Some(name) = fields.next_key_seed(self)? {
            object.push((name, fields.next_value_seed(self)?));
        }
        // The sort is stable, so the last field with a name is the last one of its group.
        object.sort_by_key(|(name, _)| *name);
        object.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        Ok(self.of(7, object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Returns whether the trees of values of two texts are equal.
    fn same_trees(one: &str, other: &str) -> bool {
        let tree = |text| serde_json::from_str::<Value>(text).ok();
        one == other || tree(one).is_some_and(|one| tree(other) == Some(one))
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "0.0",
            "-0.0",
            "1",
            "1.0",
            "1e0",
            "-1",
            "1e999",
            "18446744073709551615",
            "18446744073709551616",
            "\"\"",
            "\"a\"",
            "\"\\u0061\"",
            "\"1\"",
            "{}",
            "[]",
        ]);
        let leaf = leaf.prop_map(str::to_owned);
        leaf.prop_recursive(3, 12, 3, |value| {
            let name = prop::sample::select(vec!["\"a\"", "\"\\u0061\"", "\"b\"", " \"c\" "]);
            prop_oneof![
                prop::collection::vec(value.clone(), 0..3)
                    .prop_map(|list| format!("[{}]", list.join(","))),
                prop::collection::vec((name, value), 0..4).prop_map(|fields| {
                    let fields = fields.iter().map(|(name, value)| format!("{name}:{value}"));
                    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn texts_with_equal_trees_are_the_same(one in json(), other in json()) {
            prop_assert_eq!(same(&one, &other), same_trees(&one, &other));
            let again = format!(" {one}");
            prop_assert_eq!(same(&one, &again), same_trees(&one, &again));
        }
    }

    #[test]
    fn the_last_field_of_a_name_counts_and_the_order_does_not() {
        assert!(same(
            r#"{"a":1,"b":[{"c":2}]}"#,
            r#"{"b":[{"c":3,"c":2}],"a":4,"a":1}"#
        ));
        assert!(!same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!same("[1,2]", "[2,1]"));
        assert!(!same("{", " {"), "texts that are not JSON");
    }
}
