//! The fields of a JSON object, without a tree of values.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::iter;

use api::text::Text;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use api::decode::visit_map;

/// The fields of a JSON object. Each field is a part of the text of the object, so a field needs little memory: an
/// object can have a million fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fields<'a>(Vec<Field<'a>>);

/// The text of one field, from the start of its name to the end of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Returns the fields of a JSON object, sorted.
    pub(crate) fn parse(object: &'a str) -> serde_json::Result<Self> {
        let mut fields = visit_map(object, FieldsVisitor(object))?;
        fields.sort();
        Ok(fields)
    }

    /// Adds a field. Both texts must be parts of `object`.
    pub(crate) fn push(&mut self, object: &'a str, name: &'a RawValue, value: &'a RawValue) {
        let start = object.as_ptr().addr();
        let offset = |part: &str| part.as_ptr().addr().checked_sub(start);
        let end = offset(value.get()).map(|begin| begin + value.get().len());
        let range = offset(name.get()).zip(end);
        let field = range.and_then(|(begin, end)| object.get(begin..end));
        if self.0.is_empty() {
            // A hundred thousand cells can report one field each.
            self.0.reserve_exact(1);
        }
        self.0.extend(field.map(Field));
    }

    /// Sorts the fields by name. If a name occurs several times, keeps the last field with the name.
    pub(crate) fn sort(&mut self) {
        if self.0.is_sorted_by(|one, next| one.name() < next.name()) {
            return;
        }
        self.0.sort_by(|one, other| one.name().cmp(&other.name()));
        self.0.dedup_by(|later, kept| {
            let is_same = later.name() == kept.name();
            if is_same {
                *kept = *later;
            }
            is_same
        });
    }

    /// Keeps only some fields.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Field<'a>) -> bool) {
        self.0.retain(|field| is_kept(*field));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Field<'a>> {
        self.0.iter().copied()
    }
}

struct FieldsVisitor<'a>(&'a str);

impl<'de> Visitor<'de> for FieldsVisitor<'de> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
        let mut fields = Fields::default();
        while let Some((name, value)) = map.next_entry::<&RawValue, _>()? {
            unescaped(name.get()).map_err(M::Error::custom)?;
            fields.push(self.0, name, value);
        }
        Ok(fields)
    }
}

impl<'a> Field<'a> {
    /// Returns the name without quotes and escapes.
    pub(crate) fn name(self) -> Cow<'a, str> {
        unescaped(self.split().0).unwrap_or_default()
    }

    /// Returns the JSON text of the value.
    pub(crate) fn value(self) -> &'a str {
        let (_, rest) = self.split();
        let rest = rest.trim_start();
        rest.strip_prefix(':').unwrap_or(rest).trim_start()
    }

    /// Returns the text of the field, if it has no blanks beside the colon and no escapes in its name. [`write_object`]
    /// writes the same text.
    fn written(self) -> Option<&'a str> {
        let (name, rest) = self.split();
        let value = rest.strip_prefix(':')?;
        let has_blanks = value.starts_with(|c: char| c.is_ascii_whitespace());
        (!has_blanks && !name.contains('\\')).then_some(self.0)
    }

    /// Returns the size of the field in an object without blanks, in bytes, rounded up.
    pub(crate) fn max_size(self) -> usize {
        self.0.len()
    }

    /// Returns the JSON text of the name, and the text after the name.
    fn split(self) -> (&'a str, &'a str) {
        // Most names have no escapes. Then the next quote ends the name.
        let end = self.0.get(1..).and_then(|rest| rest.find('"'));
        let simple = end.and_then(|end| self.0.split_at_checked(end + 2));
        if let Some(parts) = simple.filter(|(name, _)| !name.contains('\\')) {
            return parts;
        }
        let mut escaped = false;
        let is_end = |byte: u8| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        };
        // The first character is the quote before the name.
        let end = self.0.bytes().skip(1).position(is_end);
        let length = end.map_or(0, |end| end + 2);
        self.0.split_at_checked(length).unwrap_or_default()
    }
}

/// Returns the text of a JSON string. A string without escapes is not copied.
///
/// # Errors
///
/// An error if an escape is not valid.
pub(crate) fn unescaped(json: &str) -> serde_json::Result<Cow<'_, str>> {
    if json.contains('\\') {
        let text = Text::deserialize(&mut Deserializer::from_str(json));
        return text.map(|Text(text)| text);
    }
    Ok(json.trim_matches('"').into())
}

/// One field of an object that is written: a field of another object, or a field with a new value.
pub(crate) enum Member<'a, V> {
    Field(Field<'a>),
    New(&'static str, V),
}

/// Joins fields and new values. Both inputs are sorted by name and have no name in common. The result is sorted.
pub(crate) fn merged<'a, V>(
    fields: impl Iterator<Item = Field<'a>>,
    new: impl IntoIterator<Item = (&'static str, V)>,
) -> impl Iterator<Item = Member<'a, V>> {
    let (mut fields, mut new) = (fields.peekable(), new.into_iter().peekable());
    iter::from_fn(move || {
        let is_new = match (fields.peek(), new.peek()) {
            (Some(field), Some((name, _))) => field.name().as_ref() > *name,
            (_, new) => new.is_some(),
        };
        match is_new {
            true => new.next().map(|(name, value)| Member::New(name, value)),
            false => fields.next().map(Member::Field),
        }
    })
}

/// Writes a JSON object. `value` writes each new value.
pub(crate) fn write_object<'a, V, W: Write>(
    members: impl Iterator<Item = Member<'a, V>>,
    out: &mut W,
    mut value: impl FnMut(V, &mut W) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    put(out, b"{")?;
    for (index, member) in members.enumerate() {
        if index > 0 {
            put(out, b",")?;
        }
        match member {
            Member::Field(field) => match field.written() {
                Some(text) => put(out, text.as_bytes())?,
                None => {
                    write_value(out, &field.name())?;
                    put(out, b":")?;
                    put(out, field.value().as_bytes())?;
                }
            },
            Member::New(name, new) => {
                write_value(out, name)?;
                put(out, b":")?;
                value(new, out)?;
            }
        }
    }
    put(out, b"}")
}

/// Writes text that is JSON already.
pub(crate) fn put(out: &mut impl Write, text: &[u8]) -> serde_json::Result<()> {
    out.write_all(text).map_err(serde_json::Error::io)
}

/// Writes a value as JSON.
pub(crate) fn write_value(
    out: &mut impl Write,
    value: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    serde_json::to_writer(out, value)
}

/// Counts bytes instead of writing them.
#[derive(Default)]
pub(crate) struct ByteCounter(pub(crate) usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(fields: &Fields<'_>) -> Vec<(String, String)> {
        let fields = fields.iter();
        fields
            .map(|field| (field.name().into_owned(), field.value().to_owned()))
            .collect()
    }

    #[test]
    fn fields_are_sorted_and_the_last_of_a_name_is_kept() {
        let text = r#" {"b" : [1, "}"] , "a\"\\":2,"c":null,"b": {"x":"\""} ,"\u0061":"a" } "#;
        let fields = Fields::parse(text).unwrap();
        let expected = [
            ("a", "\"a\""),
            ("a\"\\", "2"),
            ("b", r#"{"x":"\""}"#),
            ("c", "null"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(list(&fields), expected);
        for other in ["[]", "null", "3", r#""x""#, r#"{"\ud800":1}"#, "{} {}"] {
            assert!(Fields::parse(other).is_err(), "{other}");
        }
    }

    #[test]
    fn an_object_is_written_in_the_order_of_names() {
        let fields = Fields::parse(r#"{"d":4,"b" : [2], "\n":0}"#).unwrap();
        let new = [("a", 1), ("c", 3), ("e", 5)];
        let mut out = Vec::new();
        write_object(merged(fields.iter(), new), &mut out, |number, out| {
            write_value(out, &number)
        })
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"\n":0,"a":1,"b":[2],"c":3,"d":4,"e":5}"#
        );
    }
}
