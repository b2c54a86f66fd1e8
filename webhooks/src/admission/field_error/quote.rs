//! Quotes text from outside in error messages, with a limit on its length. A tenant can write megabytes into any field.
//! One answer contains up to a hundred errors, and each error is in the answer twice.

use std::fmt::{self, Write};

use crate::bounded::Omitted;

/// Maximum length of a quoted value, in bytes.
const QUOTED_MAX: usize = 128;
/// Maximum length of the list of supported values, in bytes. The list has room for 54 city codes of three letters.
const SUPPORTED_MAX: usize = 400;

/// Prints a text in quotes, with escapes. The text is cut after [`QUOTED_MAX`] bytes.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::new();
        for (index, c) in self.0.char_indices() {
            if shown.len() >= QUOTED_MAX {
                return write!(f, "\"{shown}\"{}", Omitted(self.0.len() - index));
            }
            match c {
                '"' | '\\' => write!(shown, "\\{c}")?,
                '\n' => shown.push_str("\\n"),
                '\r' => shown.push_str("\\r"),
                '\t' => shown.push_str("\\t"),
                c if c.is_control() => write!(shown, "\\u{:04x}", u32::from(c))?,
                c => shown.push(c),
            }
        }
        write!(f, "\"{shown}\"")
    }
}

/// Returns the detail of a `NotSupported` error: the first supported values, and the number of the other values.
pub(crate) fn supported<'v>(values: impl IntoIterator<Item = &'v str>) -> String {
    let mut detail = String::new();
    let mut values = values.into_iter();
    while let Some(value) = values.next() {
        let separator = match detail.is_empty() {
            true => "supported values: ",
            false => ", ",
        };
        let value = format!("{separator}{}", Quoted(value));
        if detail.len() + value.len() > SUPPORTED_MAX {
            // Writing to a `String` cannot fail.
            let _ = write!(detail, " and {} more", values.count() + 1);
            break;
        }
        detail.push_str(&value);
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "ä".repeat(1000);
        let shown = Quoted(&long).to_string();
        assert!(shown.ends_with("ä\"... (1872 more bytes)"), "{shown}");
        let escaped = Quoted(&"\0".repeat(100)).to_string();
        let expected = format!("\"{}\"... (78 more bytes)", "\\u0000".repeat(22));
        assert_eq!(escaped, expected);
    }

    #[test]
    fn the_first_supported_values_are_listed_and_the_others_counted() {
        let codes: Vec<_> = (100..1000).map(|code| code.to_string()).collect();
        let list = |count: usize| supported(codes.iter().take(count).map(String::as_str));
        assert!(list(54).ends_with(", \"152\", \"153\""), "{}", list(54));
        assert!(list(55).ends_with(", \"153\" and 1 more"), "{}", list(55));
        assert!(
            list(900).ends_with(", \"153\" and 846 more"),
            "{}",
            list(900)
        );
        assert_eq!(list(900).len(), list(54).len() + " and 846 more".len());
    }
}
