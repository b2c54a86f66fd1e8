//! The lines of the JSON format. The formatter of `tracing-subscriber` neither cuts fields nor escapes characters that
//! change how a terminal shows the line.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;

use super::text::{Escaped, FIELD_MAX, is_unsafe};

/// Returns the line with short fields and without unsafe characters. Most lines are returned as they are.
pub(super) fn bounded(line: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = str::from_utf8(line) else {
        return Cow::Borrowed(line);
    };
    let body = text.trim_end_matches('\n');
    if body.len() <= FIELD_MAX && !body.contains(is_unsafe) {
        return Cow::Borrowed(line);
    }
    let Ok(mut event) = serde_json::from_str(body) else {
        return Cow::Borrowed(line);
    };
    bound(&mut event);
    Cow::Owned(format!("{event}\n").into_bytes())
}

fn bound(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut short = String::new();
            let mut escaped = Escaped::new(&mut short);
            // A write to a String does not fail.
            let _ = escaped.write_str(text);
            let _ = escaped.finish();
            *text = short;
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        Value::Object(fields) => fields.values_mut().for_each(bound),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str) -> String {
        let message = serde_json::to_string(message).unwrap();
        format!("{{\"level\":\"WARN\",\"message\":{message},\"span\":{{\"name\":{message}}}}}\n")
    }

    #[test]
    fn long_fields_are_cut_and_unsafe_characters_are_escaped() {
        let ordinary = line("a \"b\"\nc");
        assert!(matches!(bounded(ordinary.as_bytes()), Cow::Borrowed(_)));
        let long = format!("\u{202e}{}", "x".repeat(2 * FIELD_MAX));
        let bounded = bounded(line(&long).as_bytes()).into_owned();
        assert!(bounded.len() < 3 * FIELD_MAX && bounded.ends_with(b"}\n"));
        let event: Value = serde_json::from_slice(&bounded).unwrap();
        for message in [&event["message"], &event["span"]["name"]] {
            let message = message.as_str().unwrap();
            assert!(message.starts_with("\\u{202e}xx"), "{message}");
            assert!(message.ends_with("more bytes)"), "{message}");
        }
    }
}
