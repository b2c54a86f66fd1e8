//! The name of a field.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::str::Chars;

/// The name of a field as JSON, without the quotes. Serde has decoded the name before, so its escapes are valid. Two
/// names are compared without their escapes, and only up to the first difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldName<'a> {
    json: &'a str,
    has_escapes: bool,
}

impl<'a> FieldName<'a> {
    pub(super) fn new(json: &'a str, has_escapes: bool) -> Self {
        Self { json, has_escapes }
    }

    /// Returns the name without escapes.
    #[inline]
    pub(crate) fn text(self) -> Cow<'a, str> {
        match self.has_escapes {
            false => self.json.into(),
            true => self.unescaped().collect(),
        }
    }

    /// Returns the JSON text of the name without the quotes.
    pub(super) fn json(self) -> &'a str {
        self.json
    }

    pub(super) fn has_escapes(self) -> bool {
        self.has_escapes
    }

    fn unescaped(self) -> Unescaped<'a> {
        Unescaped(self.json.chars())
    }
}

impl PartialEq for FieldName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FieldName<'_> {}

impl PartialOrd for FieldName<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FieldName<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match self.has_escapes || other.has_escapes {
            false => self.json.cmp(other.json),
            // The order of UTF-8 texts is the order of their characters.
            true => self.unescaped().cmp(other.unescaped()),
        }
    }
}

/// The characters of a JSON string, without escapes.
struct Unescaped<'a>(Chars<'a>);

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        #[cfg(test)]
        crate::steps::count();
        let char = self.0.next()?;
        if char != '\\' {
            return Some(char);
        }
        Some(match self.0.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.unit();
                let mut units = char::decode_utf16([first]);
                match units.next() {
                    Some(Ok(char)) => char,
                    // A pair of escapes: the next two characters are the start of the second escape.
                    _ => {
                        self.0.by_ref().take(2).for_each(drop);
                        let mut pair = char::decode_utf16([first, self.unit()]);
                        pair.next()?.unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                }
            }
            other => other,
        })
    }
}

impl Unescaped<'_> {
    /// Reads four hexadecimal digits.
    fn unit(&mut self) -> u16 {
        let digits = self.0.by_ref().take(4).filter_map(|char| char.to_digit(16));
        let unit = digits.fold(0, |unit, digit| unit << 4 | digit);
        u16::try_from(unit).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a JSON string without quotes.
    fn name() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "a",
            "b",
            " ",
            "!",
            "ä",
            "€",
            "😀",
            "\\n",
            "\\t",
            "\\r",
            "\\b",
            "\\f",
            "\\\"",
            "\\\\",
            "\\/",
            "\\u0061",
            "\\u00e4",
            "\\u20AC",
            "\\ud83d\\ude00",
            "\\uffff",
        ]);
        prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn names_are_those_of_serde(one in name(), other in name()) {
            let decoded = |json: &str| -> String {
                serde_json::from_str(&format!("\"{json}\"")).unwrap()
            };
            let field_name = |json| FieldName::new(json, str::contains(json, '\\'));
            prop_assert_eq!(field_name(&one).text(), decoded(&one));
            let order = field_name(&one).cmp(&field_name(&other));
            prop_assert_eq!(order, decoded(&one).cmp(&decoded(&other)));
        }
    }
}
