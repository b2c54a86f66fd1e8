//! The fields of the text format. One event is one line: control characters in a field are escaped.

use std::fmt::{self, Write};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Maximum length of one field, in bytes. Texts from requests are shorter, because `webhooks` cuts them off. The limit
/// is large enough for the message of any other program.
pub(super) const FIELD_MAX: usize = 4096;

/// Returns the formatter of the fields. Its format is the default format of `tracing-subscriber`.
pub(super) fn fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(
        |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
            let name = field.name();
            if name != "message" {
                write!(writer, "{}=", name.strip_prefix("r#").unwrap_or(name))?;
            }
            let mut escaped = Escaped::new(writer);
            write!(escaped, "{value:?}")?;
            escaped.finish()
        },
    )
    .delimited(" ")
}

/// Writes text without control characters, up to a limit.
pub(super) struct Escaped<'w, W> {
    out: &'w mut W,
    left: usize,
    cut: usize,
}

impl<'w, W: Write> Escaped<'w, W> {
    /// Limits the text to [`FIELD_MAX`].
    pub(super) fn new(out: &'w mut W) -> Self {
        Self {
            out,
            left: FIELD_MAX,
            cut: 0,
        }
    }

    /// Writes how much of the text is missing.
    pub(super) fn finish(self) -> fmt::Result {
        match self.cut {
            0 => Ok(()),
            cut => write!(self.out, "... ({cut} more bytes)"),
        }
    }
}

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let escaped = is_unsafe(c).then(|| c.escape_default());
            let length = escaped
                .as_ref()
                .map_or_else(|| c.len_utf8(), ExactSizeIterator::len);
            if self.cut > 0 || length > self.left {
                self.cut += c.len_utf8();
                continue;
            }
            self.left -= length;
            match escaped {
                Some(escaped) => write!(self.out, "{escaped}")?,
                None => self.out.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Returns whether a character would change how a terminal shows the line: control characters, line separators and
/// changes of the direction of text.
pub(super) fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> (String, usize) {
        let mut out = String::new();
        let mut escaped = Escaped {
            out: &mut out,
            left: 16,
            cut: 0,
        };
        write!(escaped, "{text}").unwrap();
        let cut = escaped.cut;
        (out, cut)
    }

    #[test]
    fn control_characters_are_escaped_and_long_fields_are_cut() {
        assert_eq!(escaped("ä b\\\""), ("ä b\\\"".to_owned(), 0));
        assert_eq!(escaped("a\n\u{1b}["), ("a\\n\\u{1b}[".to_owned(), 0));
        assert_eq!(
            escaped("\u{202e}\u{9b}"),
            ("\\u{202e}\\u{9b}".to_owned(), 0)
        );
        assert_eq!(escaped(&"x".repeat(20)), ("x".repeat(16), 4));
        assert_eq!(escaped("xxxxxxxxxxxxxxx\n\n"), ("x".repeat(15), 2));
    }
}
