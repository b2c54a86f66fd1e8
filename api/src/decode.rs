//! Decoding of JSON from outside into views.
//!
//! Serde alone has two properties that a hostile request can use. If a text is where another type must be, the error
//! repeats the text in quotes: the memory for this error can be eighteen times the text. And serde decodes an array as
//! an object: a list element of two bytes can become a view of a hundred bytes. [`Strict`] decodes the same values as
//! serde, but its errors are short, and it accepts only objects as objects. API servers reject such arrays, too.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, Visitor,
};

/// Longest text that an error repeats, in bytes.
const REPEATED_MAX: usize = 128;

/// A value that was decoded with short errors.
#[derive(Debug)]
pub struct Strict<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Guard::<_, ANY>(deserializer)).map(Self)
    }
}

/// Decodes a JSON text.
///
/// # Errors
///
/// An error of `serde_json`, without long texts.
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    serde_json::from_str(text).map(|Strict(value)| value)
}

/// Decodes a JSON text in UTF-8.
///
/// # Errors
///
/// An error of `serde_json`, without long texts.
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).map(|Strict(value)| value)
}

/// Decodes a JSON object with a visitor.
///
/// # Errors
///
/// An error of `serde_json`, without long texts.
pub fn visit_map<'a, V: Visitor<'a>>(text: &'a str, visitor: V) -> serde_json::Result<V::Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Guard::<_, ANY>(&mut json).deserialize_map(visitor)?;
    json.end().map(|()| value)
}

/// Decodes a JSON list, and passes each element to `each`.
///
/// # Errors
///
/// An error of `serde_json`, without long texts.
pub fn for_each_of<'a, T: Deserialize<'a>>(
    text: &'a str,
    each: impl FnMut(T),
) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    for_each(Guard::<_, ANY>(&mut json), each)?;
    json.end()
}

/// Decodes a list, and passes each element to `each`.
///
/// # Errors
///
/// An error of the deserializer.
pub fn for_each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    each: impl FnMut(T),
) -> Result<(), D::Error> {
    struct Elements<T, F>(F, std::marker::PhantomData<fn(T)>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Elements<T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
            while let Some(element) = elements.next_element()? {
                self.0(element);
            }
            Ok(())
        }
    }
    deserializer.deserialize_seq(Elements(each, std::marker::PhantomData))
}

/// The forms that a visitor accepts.
const ANY: u8 = 0;
/// Refuses texts.
const NO_TEXT: u8 = 1;
/// Refuses texts and lists.
const OBJECT: u8 = 2;

/// Wraps each part of a decoder, so that nested values are decoded in the same way. `FORMS` matters for visitors only.
struct Guard<T, const FORMS: u8>(T);

/// Passes each method to the wrapped deserializer without a change.
macro_rules! unchanged {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        }
    )*};
}

/// Decodes any type but a text. For these types, `serde_json` decodes the same values with `deserialize_any`.
macro_rules! no_text {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.deserialize_any(Guard::<_, NO_TEXT>(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>, const FORMS: u8> Deserializer<'de> for Guard<D, FORMS> {
    type Error = D::Error;

    unchanged! {
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_identifier deserialize_ignored_any
    }
    no_text! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 deserialize_unit deserialize_seq deserialize_map
    }

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Guard::<_, ANY>(visitor))
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_option(Guard::<_, ANY>(visitor))
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_newtype_struct(name, Guard::<_, ANY>(visitor))
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Guard::<_, OBJECT>(visitor))
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Passes each value to the wrapped visitor without a change.
macro_rules! passed {
    ($($method:ident: $value:ty),*) => {$(
        #[inline]
        fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

/// Passes a text to the wrapped visitor, or refuses the text.
macro_rules! text {
    ($($method:ident: $value:ty),*) => {$(
        #[inline]
        fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            match FORMS {
                ANY => self.0.$method(value),
                _ => Err(E::invalid_type(shown(&value), &self)),
            }
        }
    )*};
}

impl<'de, V: Visitor<'de>, const FORMS: u8> Visitor<'de> for Guard<V, FORMS> {
    type Value = V::Value;

    passed!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
    text!(visit_str: &str, visit_borrowed_str: &'de str, visit_string: String);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Guard::<_, ANY>(deserializer))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Guard::<_, ANY>(deserializer))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        match FORMS {
            OBJECT => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
            _ => self.0.visit_seq(Guard::<_, ANY>(elements)),
        }
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Guard::<_, ANY>(fields))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(variant)
    }
}

/// Returns the form in which an error repeats a text.
fn shown(text: &str) -> Unexpected<'_> {
    match text.len() > REPEATED_MAX {
        true => Unexpected::Other("a long string"),
        false => Unexpected::Str(text),
    }
}

impl<'de, A: SeqAccess<'de>, const FORMS: u8> SeqAccess<'de> for Guard<A, FORMS> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Guard::<_, ANY>(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>, const FORMS: u8> MapAccess<'de> for Guard<A, FORMS> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Guard::<_, ANY>(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>, const FORMS: u8> DeserializeSeed<'de> for Guard<S, FORMS> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Guard::<_, ANY>(deserializer))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Object {
        number: i64,
        list: Vec<Self>,
        choice: Option<BTreeMap<String, bool>>,
    }

    fn error(text: &str) -> String {
        from_str::<Object>(text).unwrap_err().to_string()
    }

    #[test]
    fn values_and_short_errors_are_those_of_serde() {
        for text in [
            r#"{"number":-3,"list":[{"number":4}],"choice":{"a":true},"other":["x"]}"#,
            r#"{"choice":null}"#,
        ] {
            let object: Object = serde_json::from_str(text).unwrap();
            assert_eq!(from_str::<Object>(text).unwrap(), object, "{text}");
        }
        for text in [
            "3",
            "null",
            r#""x""#,
            r#"{"number":"x"}"#,
            r#"{"number":null}"#,
            r#"{"list":{}}"#,
            r#"{"list":[{"choice":[]}]}"#,
            r#"{"choice":{"a":"b"}}"#,
            r#"{"number":1"#,
        ] {
            let of_serde = serde_json::from_str::<Object>(text).unwrap_err();
            // The position of an error in a text is after the text, not before it.
            let without_position =
                |error: &str| error.rsplit_once(" at line").unwrap().0.to_owned();
            assert_eq!(
                without_position(&error(text)),
                without_position(&of_serde.to_string()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_text_is_not_repeated_and_an_array_is_not_an_object() {
        let long = "\u{7f}".repeat(1000);
        for text in [
            format!(r#""{long}""#),
            format!(r#"{{"number":"{long}"}}"#),
            format!(r#"{{"list":[{{"choice":{{"a":"{long}"}}}}]}}"#),
        ] {
            let error = error(&text);
            assert!(
                error.starts_with("invalid type: a long string, expected "),
                "{error}"
            );
            assert!(error.len() < 100, "{error}");
        }
        assert!(error("[3]").starts_with("invalid type: sequence, expected struct Object"));
        assert!(error(r#"{"list":[[]]}"#).starts_with("invalid type: sequence"));
    }
}
