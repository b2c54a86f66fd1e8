//! Limits the length of texts from requests. A caller can send megabytes in any field. Every such text in the log or in
//! an HTTP error passes through [`bounded`].

use std::borrow::Cow;

/// Maximum length of the result, in bytes.
const MAX: usize = 256;
/// Bytes of the result that are reserved for the number of omitted bytes.
const SUFFIX: usize = 32;

/// Cuts a text off after about 256 bytes, and escapes its control characters. A character is never split.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX && !text.contains(is_unsafe) {
        return text.into();
    }
    let mut shown = String::new();
    for (index, c) in text.char_indices() {
        let length = shown.len();
        match is_unsafe(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
        if shown.len() > MAX - SUFFIX {
            shown.truncate(length);
            return format!("{shown}... ({} more bytes)", text.len() - index).into();
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
    fn a_text_has_at_most_256_bytes_and_no_control_characters() {
        assert_eq!(bounded("a \"b\" ä"), "a \"b\" ä");
        assert_eq!(bounded("a\nb\u{1b}[0m\u{202e}"), "a\\nb\\u{1b}[0m\\u{202e}");
        assert_eq!(bounded(&"x".repeat(256)), "x".repeat(256));
        for c in ["x", "ä", "\n", "\u{10ffff}"] {
            let long = bounded(&c.repeat(1 << 20)).into_owned();
            assert!((200..=256).contains(&long.len()), "{c:?}: {long}");
            assert!(long.ends_with(" more bytes)"), "{long}");
        }
    }
}
