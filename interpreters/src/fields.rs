//! The fields of a JSON object, without a tree of values.

mod name;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::io::{self, Write};
use std::iter;

use api::text::Text;
use serde::Serialize;
use serde::de::{self, MapAccess, Visitor};
use serde_json::value::RawValue;

use api::decode::visit_map;
use name::FieldName;

/// The fields of a JSON object. Each field is stored as four positions in the text of the object, because an object
/// can have a million fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'a> {
    object: &'a str,
    positions: Vec<FieldPosition>,
}

/// The position of a field in the text of its object, in bytes.
#[derive(Clone, Copy, Debug)]
struct FieldPosition {
    /// The start of the name, after the quote.
    name: u32,
    /// The end of the name, before the quote.
    name_end: u32,
    /// The start of the value. There can be millions of blanks before it, so it is not searched again.
    value: u32,
    /// The end of the value.
    end: u32,
    name_has_escapes: bool,
}

/// One field of a JSON object. Two fields are equal if their names are equal without escapes, and their values have the
/// same text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: FieldName<'a>,
    /// The JSON text of the value.
    pub(crate) value: &'a str,
    /// The JSON text of the field: the name with its quotes, the colon, the value, and the blanks between them.
    text: &'a str,
}

impl<'a> Fields<'a> {
    /// Returns the fields of a JSON object, sorted.
    pub(crate) fn parse(object: &'a str) -> serde_json::Result<Self> {
        let mut fields = visit_map(object, FieldsVisitor(object))?;
        fields.sort();
        Ok(fields)
    }

    /// Creates an empty list of fields of this object.
    pub(crate) fn of(object: &'a str) -> Self {
        Self {
            object,
            positions: Vec::new(),
        }
    }

    /// Adds a field. `decoded_name` is the name without escapes. If it is borrowed, it must be a part of the object, as
    /// the value must be.
    ///
    /// # Errors
    ///
    /// An error if the field is not a part of the object, or if the object is larger than 4 GiB.
    #[expect(clippy::ptr_arg, reason = "only a borrowed name has a position")]
    pub(crate) fn push<E: de::Error>(
        &mut self,
        decoded_name: &Cow<'a, str>,
        value: &'a RawValue,
    ) -> Result<(), E> {
        let start = self.object.as_ptr().addr();
        let range = |part: &str| {
            let offset = part.as_ptr().addr().checked_sub(start)?;
            Some((offset, offset.checked_add(part.len())?))
        };
        let position = || {
            let (value, end) = range(value.get())?;
            let (name, name_end) = match decoded_name {
                Cow::Borrowed(name) => range(name)?,
                Cow::Owned(_) => name_before(self.object, value)?,
            };
            self.object.get(name..end)?;
            Some(FieldPosition {
                name: u32::try_from(name).ok()?,
                name_end: u32::try_from(name_end).ok()?,
                value: u32::try_from(value).ok()?,
                end: u32::try_from(end).ok()?,
                name_has_escapes: matches!(decoded_name, Cow::Owned(_)),
            })
        };
        let position = position().ok_or_else(|| E::custom("a field without a position"))?;
        if self.positions.is_empty() {
            // A hundred thousand cells can report one field each.
            self.positions.reserve_exact(1);
        }
        self.positions.push(position);
        Ok(())
    }

    /// Sorts the fields by name. If a name occurs several times, keeps the last field with the name.
    pub(crate) fn sort(&mut self) {
        let object = self.object;
        let name = |position: &FieldPosition| position.name(object);
        let positions = &mut self.positions;
        if positions.is_sorted_by(|one, next| name(one) < name(next)) {
            return;
        }
        positions.sort_by(|one, other| name(one).cmp(&name(other)));
        positions.dedup_by(|later, kept| {
            let is_same = name(later) == name(kept);
            if is_same {
                *kept = *later;
            }
            is_same
        });
    }

    /// Keeps only some fields.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Field<'a>) -> bool) {
        let object = self.object;
        self.positions
            .retain(|position| is_kept(position.field(object)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Field<'a>> {
        let object = self.object;
        self.positions
            .iter()
            .map(move |position| position.field(object))
    }
}

impl FieldPosition {
    #[inline]
    fn name(self, object: &str) -> FieldName<'_> {
        let name = part(object, self.name, self.name_end);
        FieldName::new(name, self.name_has_escapes)
    }

    fn field(self, object: &str) -> Field<'_> {
        Field {
            name: self.name(object),
            value: part(object, self.value, self.end),
            text: part(object, self.name.saturating_sub(1), self.end),
        }
    }
}

/// Returns the text between two positions.
#[inline]
fn part(object: &str, start: u32, end: u32) -> &str {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(start, end)| object.get(start..end));
    part.unwrap_or_default()
}

/// Returns the start and the end of a name, without the quotes. The value of the field starts at `value`.
fn name_before(object: &str, value: usize) -> Option<(usize, usize)> {
    let before = object.get(..value)?.trim_end().strip_suffix(':')?;
    let name = before.trim_end().strip_suffix('"')?;
    let is_escaped = |quote: usize| {
        let before = name.as_bytes().get(..quote).unwrap_or_default();
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
        backslashes.count() % 2 == 1
    };
    let mut quotes = name.rmatch_indices('"').map(|(quote, _)| quote);
    let quote = quotes.find(|quote| !is_escaped(*quote))?;
    Some((quote + 1, name.len()))
}

impl PartialEq for Fields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields<'_> {}

impl PartialOrd for Fields<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fields<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

struct FieldsVisitor<'a>(&'a str);

impl<'de> Visitor<'de> for FieldsVisitor<'de> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
        /// Usual number of fields of a status.
        const USUAL: usize = 8;
        let mut fields = Fields::of(self.0);
        fields.positions.reserve_exact(USUAL);
        while let Some((Text(name), value)) = map.next_entry()? {
            fields.push(&name, value)?;
        }
        Ok(fields)
    }
}

impl PartialEq for Field<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Field<'_> {}

impl PartialOrd for Field<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Field<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let of_name = self.name.cmp(&other.name);
        of_name.then_with(|| self.value.cmp(other.value))
    }
}

impl Field<'_> {
    /// Returns the size of the field in an object without blanks, in bytes, rounded up.
    pub(crate) fn max_size(self) -> usize {
        self.name.json().len() + "'':".len() + self.value.len()
    }

    /// Writes the field without blanks beside the colon, and without needless escapes in the name.
    fn write(self, out: &mut impl Write) -> serde_json::Result<()> {
        let has_blanks = self.text.len() > self.max_size();
        match self.name.has_escapes() {
            false if !has_blanks => return put(out, self.text.as_bytes()),
            false => {
                put(out, b"\"")?;
                put(out, self.name.json().as_bytes())?;
                put(out, b"\"")?;
            }
            true => write_value(out, &self.name.text())?,
        }
        put(out, b":")?;
        put(out, self.value.as_bytes())
    }
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
            (Some(field), Some((name, _))) => field.name.text().as_ref() > *name,
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
            Member::Field(field) => field.write(out)?,
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
            .map(|field| (field.name.text().into_owned(), field.value.to_owned()))
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
