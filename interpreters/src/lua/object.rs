//! Reads the objects of a request that the result of a script is compared with.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::values::{SCALAR, TABLE};
use crate::error::InterpretError;
use crate::raw::parse;

/// Memory that counts for each byte of a JSON text at most. An empty list has two bytes.
const MEMORY_PER_BYTE: usize = (SCALAR + TABLE).div_ceil(2);

/// Reads an object that needs at most `limit` bytes of memory as a tree of values. A script must return the whole
/// object, and its result has the same limit.
///
/// # Errors
///
/// The object is no JSON, or it is too large.
pub(super) fn read(field: &'static str, text: &str, limit: usize) -> Result<Json, InterpretError> {
    if text.len().saturating_mul(MEMORY_PER_BYTE) > limit {
        let mut left = limit;
        let counted = Size(&mut left).deserialize(&mut serde_json::Deserializer::from_str(text));
        // An error in the JSON is found again, with its path.
        if counted.is_err() && left == 0 {
            let problem = format_args!("needs more than {limit} bytes of memory");
            return Err(InterpretError::new(field, problem));
        }
    }
    parse(field, text)
}

/// Counts the memory of a value, without building it. `0` is left if there is not enough.
struct Size<'l>(&'l mut usize);

impl Size<'_> {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        *self.0 = self.0.saturating_sub(bytes);
        match *self.0 {
            0 => Err(E::custom("too large")),
            _ => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Size<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Size<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.take(SCALAR)
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.take(SCALAR)
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.take(SCALAR)
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.take(SCALAR)
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.take(SCALAR)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.take(SCALAR + text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.take(SCALAR + TABLE)?;
        while elements.next_element_seed(Size(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.take(SCALAR + TABLE)?;
        // The name of a field counts like a text.
        while fields.next_key_seed(Size(self.0))?.is_some() {
            fields.next_value_seed(Size(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of values can have a hundred times the size of its text.
    #[test]
    fn an_object_that_would_need_too_much_memory_is_refused() {
        let limit = 1 << 20;
        let object = |element: &str, count: usize| {
            let elements = vec![element; count];
            format!(r#"{{"x":[{}]}}"#, elements.join(","))
        };
        for element in [r#"{"":0}"#, "[]", "0", r#""a""#, "[[0]]"] {
            let large = object(element, 100_000);
            let error = read("request.object", &large, limit)
                .unwrap_err()
                .to_string();
            let expected = "request.object: needs more than 1048576 bytes of memory";
            assert_eq!(error, expected, "{element}");
            let small = object(element, 500);
            assert!(read("request.object", &small, limit).is_ok(), "{element}");
        }
    }

    /// Without this bound, an object could be read that is not counted.
    #[test]
    fn no_text_counts_more_for_each_byte() {
        let deep = "[".repeat(100) + &"]".repeat(100);
        for element in [r#"{"":0}"#, "[]", "{}", "0", r#""""#, &deep, r#"{"":{}}"#] {
            let text = format!("[{}]", vec![element; 1000].join(","));
            let most = text.len() * MEMORY_PER_BYTE;
            let mut left = most;
            let mut json = serde_json::Deserializer::from_str(&text);
            Size(&mut left).deserialize(&mut json).unwrap();
            let tree: Json = serde_json::from_str(&text).unwrap();
            assert!(left > 0 && tree.is_array(), "{element}");
        }
    }

    #[test]
    fn an_error_in_the_text_names_its_place() {
        let text = format!(r#"{{"x":[{} 0 0]}}"#, "0,".repeat(1000));
        let error = read("request.object", &text, 1 << 10).unwrap_err();
        assert!(error.to_string().starts_with("request.object"), "{error}");
    }
}
