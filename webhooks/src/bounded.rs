//! Limits the length of texts from outside. A caller can send megabytes in any field. Every such text in the log or in
//! an HTTP error passes through [`bounded`], and every message of another program in an answer through
//! [`bounded_message`].

use std::borrow::Cow;
use std::fmt;

/// Maximum length of a text, in bytes.
const TEXT_MAX: usize = 256;
/// Maximum length of a quoted message from another program, in bytes.
const MESSAGE_MAX: usize = 512;
/// Bytes of the result that are reserved for the number of omitted bytes.
const SUFFIX: usize = 32;

/// Prints the number of bytes that were cut off.
pub(crate) struct Omitted(pub(crate) usize);

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "... ({} more bytes)", self.0)
    }
}

/// Cuts a text off after about 256 bytes, and escapes its control characters. A character is never split.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    cut(text, TEXT_MAX)
}

/// Cuts a message off after about 512 bytes, and escapes its control characters. A character is never split.
pub(crate) fn bounded_message(text: &str) -> Cow<'_, str> {
    cut(text, MESSAGE_MAX)
}

fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max && !text.contains(is_unsafe) {
        return text.into();
    }
    let mut shown = String::new();
    for (index, c) in text.char_indices() {
        let length = shown.len();
        match is_unsafe(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
        if shown.len() > max.saturating_sub(SUFFIX) {
            shown.truncate(length);
            return format!("{shown}{}", Omitted(text.len() - index)).into();
        }
    }
    shown.into()
}

/// Returns whether a character would change how a terminal shows the text: control characters, line separators and
/// changes of the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_and_has_no_control_characters() {
        assert_eq!(bounded("a \"b\" ä"), "a \"b\" ä");
        assert_eq!(bounded("a\nb\u{1b}[0m\u{202e}"), "a\\nb\\u{1b}[0m\\u{202e}");
        assert_eq!(bounded(&"x".repeat(256)), "x".repeat(256));
        for c in ["x", "ä", "\n", "\u{10ffff}"] {
            let text = c.repeat(1 << 20);
            for (long, max) in [(bounded(&text), 256), (bounded_message(&text), 512)] {
                assert!((max - 56..=max).contains(&long.len()), "{c:?}: {long}");
                assert!(long.ends_with(" more bytes)"), "{long}");
            }
            assert_eq!(bounded(&bounded(&text)), bounded(&text));
        }
    }
}
