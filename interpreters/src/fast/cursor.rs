//! A reader for canonical JSON: compact, with fields in a known order and strings without escapes. For any other form,
//! the reader stops with an error.

#![expect(
    clippy::inline_always,
    reason = "a comparison with a literal needs only a few instructions, if its length is known"
)]

use serde::Deserialize;
use serde_json::Deserializer;

use api::decode::Strict;

/// A position in a JSON text. Each method moves the position to the end of the text that it reads. After
/// [`NotCanonical`] the position is undefined.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    /// True if the position is directly after the start of an object.
    opened: bool,
}

/// The text is not canonical, or this is uncertain.
#[derive(Debug)]
pub(crate) struct NotCanonical;

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            opened: false,
        }
    }

    /// Returns the text after the position.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Returns the text between an earlier position and this one.
    pub(super) fn since(&self, start: &Self) -> Option<&'a str> {
        start
            .rest
            .get(..start.rest.len().checked_sub(self.rest.len())?)
    }

    /// Reads exactly the given text.
    #[inline(always)]
    pub(super) fn literal(&mut self, literal: &'static str) -> Result<(), NotCanonical> {
        self.rest = self.rest.strip_prefix(literal).ok_or(NotCanonical)?;
        Ok(())
    }

    /// Reads the start of an object.
    #[inline]
    pub(super) fn open(&mut self) -> Result<(), NotCanonical> {
        self.literal("{")?;
        self.opened = true;
        Ok(())
    }

    /// Reads the name of a field. `name` includes the quotes and the colon. Returns false if the next field has another
    /// name.
    #[inline(always)]
    pub(super) fn field(&mut self, name: &'static str) -> bool {
        let rest = match self.opened {
            true => Some(self.rest),
            false => self.rest.strip_prefix(','),
        };
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix(name)) else {
            return false;
        };
        self.rest = rest;
        self.opened = false;
        true
    }

    /// Reads the end of an object.
    #[inline]
    pub(super) fn close(&mut self) -> Result<(), NotCanonical> {
        self.literal("}")?;
        self.opened = false;
        Ok(())
    }

    /// Reads a list. Calls `element` to read each element.
    pub(super) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), NotCanonical>,
    ) -> Result<(), NotCanonical> {
        self.literal("[")?;
        if self.literal("]").is_ok() {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.literal(",").is_err() {
                return self.literal("]");
            }
        }
    }

    /// Reads a string that has no escapes.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'a str, NotCanonical> {
        let rest = self.rest.strip_prefix('"').ok_or(NotCanonical)?;
        let end = plain_length(rest.as_bytes());
        let (text, rest) = rest.split_at_checked(end).ok_or(NotCanonical)?;
        self.rest = rest.strip_prefix('"').ok_or(NotCanonical)?;
        Ok(text)
    }

    /// Reads an integer. The integer has no fraction, no exponent and no leading zeros.
    #[inline]
    pub(super) fn integer(&mut self) -> Result<i64, NotCanonical> {
        /// The maximum number of digits. Every number with this many digits fits into `i64`.
        const DIGITS: usize = 18;
        let unsigned = self.rest.strip_prefix('-');
        let mut rest = unsigned.unwrap_or(self.rest).as_bytes();
        let start = rest;
        let mut number = 0;
        while let [digit @ b'0'..=b'9', after @ ..] = rest
            && start.len() - rest.len() < DIGITS
        {
            number = number * 10 + i64::from(digit - b'0');
            rest = after;
        }
        let digits = start.len() - rest.len();
        let leading_zero = start.starts_with(b"0") && (digits > 1 || unsigned.is_some());
        let more = rest
            .first()
            .is_none_or(|next| matches!(next, b'0'..=b'9' | b'.' | b'e' | b'E'));
        if digits == 0 || leading_zero || more {
            return Err(NotCanonical);
        }
        let end = self.rest.len() - rest.len();
        self.rest = self.rest.get(end..).ok_or(NotCanonical)?;
        Ok(if unsigned.is_some() { -number } else { number })
    }

    /// Reads an integer field. The field may be absent. `name` has the same form as in [`field`](Self::field).
    #[inline(always)]
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<i64>, NotCanonical> {
        match self.field(name) {
            true => self.integer().map(Some),
            false => Ok(None),
        }
    }

    /// Reads a field in any JSON form. The field may be absent.
    pub(super) fn optional_value<T: Deserialize<'a>>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, NotCanonical> {
        match self.field(name) {
            true => self.value().map(Some),
            false => Ok(None),
        }
    }

    /// Reads one value with `canonical`. If `canonical` fails, reads the same value again with `general`.
    #[inline]
    pub(super) fn canonical_or<T>(
        &mut self,
        canonical: impl FnOnce(&mut Self) -> Result<T, NotCanonical>,
        general: impl FnOnce(&mut Self) -> Result<T, NotCanonical>,
    ) -> Result<T, NotCanonical> {
        let start = self.clone();
        canonical(self).or_else(|_| {
            *self = start;
            general(self)
        })
    }

    /// Reads a value in any JSON form.
    pub(super) fn value<T: Deserialize<'a>>(&mut self) -> Result<T, NotCanonical> {
        let mut values = Deserializer::from_str(self.rest).into_iter();
        let Strict(value) = values.next().and_then(Result::ok).ok_or(NotCanonical)?;
        self.rest = self.rest.get(values.byte_offset()..).ok_or(NotCanonical)?;
        Ok(value)
    }
}

/// Returns the number of bytes before the first special byte. A special byte ends the string, starts an escape or is
/// not allowed in a string.
#[inline]
fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    // Sets the highest bit of the first byte that is less than `limit`. Later bytes may also get this bit.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let (words, tail) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = below(word, b' ');
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = (control | quote | escape) & HIGHEST;
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    let rest = tail.iter().position(special).unwrap_or(tail.len());
    words.len() * 8 + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(text: &str) -> Option<i64> {
        Cursor::new(text).integer().ok()
    }

    #[test]
    fn integers_in_another_form_are_not_canonical() {
        let most = 999_999_999_999_999_999;
        for number in [0, 7, -7, 10, most, -most] {
            assert_eq!(integer(&format!("{number},")), Some(number));
        }
        for other in [
            "",
            "-",
            "-0,",
            "01,",
            "-01,",
            "1.0,",
            "1e2,",
            "+1,",
            "1",
            "null",
            "1000000000000000000,",
        ] {
            assert_eq!(integer(other), None, "{other}");
        }
    }

    #[test]
    fn a_string_ends_at_the_first_special_byte() {
        for length in 0..40 {
            for byte in 0..=u8::MAX {
                let mut text = vec![b'a'; length];
                text.push(byte);
                text.extend_from_slice(b"\\ \"\x00 after it");
                let special = byte < b' ' || byte == b'"' || byte == b'\\';
                let end = if special { length } else { length + 1 };
                assert_eq!(plain_length(&text), end, "{text:?}");
            }
        }
        for (text, read) in [
            (r#""","#, Some("")),
            (r#""äb"}"#, Some("äb")),
            (r#""a\u0061""#, None),
            ("\"a\n\"", None),
            ("\"a", None),
            ("a", None),
        ] {
            assert_eq!(Cursor::new(text).text().ok(), read, "{text}");
        }
    }

    #[test]
    fn fields_are_separated_by_single_commas() {
        let read = |text: &str| -> Result<(), NotCanonical> {
            let mut cursor = Cursor::new(text);
            cursor.open()?;
            for name in [r#""a":"#, r#""b":"#] {
                if cursor.field(name) {
                    cursor.integer()?;
                }
            }
            cursor.close()
        };
        for text in ["{}", r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "{",
            "{,}",
            r#"{,"a":1}"#,
            r#"{"a":1"b":2}"#,
            r#"{"a":1,}"#,
            r#"{"a":1,,"b":2}"#,
            r#"{"b":2,"a":1}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
