//! Generators of hostile requests.

/// Stands for blanks that fill half of the body.
pub(super) const BLANKS: &str = "<blanks>";

/// A generator of one part of a request: its name, the text before the repeated piece, the repeated piece, and the text
/// after the repeated piece. The first text can have [`BLANKS`].
pub(super) struct Generator {
    pub(super) name: &'static str,
    before: String,
    piece: &'static str,
    after: String,
}

impl Generator {
    pub(super) fn new(
        name: &'static str,
        before: impl Into<String>,
        piece: &'static str,
        after: impl Into<String>,
    ) -> Self {
        Self {
            name,
            before: before.into(),
            piece,
            after: after.into(),
        }
    }

    /// Returns a body with as many repetitions as fit, but at least one. A comma at the end of the last repetition is
    /// removed.
    pub(super) fn body(&self, bytes: usize) -> Vec<u8> {
        let before = self.before.replace(BLANKS, &" ".repeat(bytes / 2));
        let room = bytes.saturating_sub(before.len() + self.after.len());
        let mut repeated = String::new();
        for number in 0.. {
            let piece = numbered(self.piece, number);
            if !repeated.is_empty() && repeated.len() + piece.len() > room {
                break;
            }
            repeated.push_str(&piece);
        }
        let repeated = repeated.strip_suffix(',').unwrap_or(&repeated);
        [&before, repeated, &self.after].concat().into_bytes()
    }
}

/// Replaces `@` by a number. The number has as few characters as possible.
fn numbered(piece: &str, number: usize) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    if !piece.contains('@') {
        return piece.to_owned();
    }
    let mut text = String::new();
    let mut rest = number;
    loop {
        text.insert(0, char::from(DIGITS[rest % DIGITS.len()]));
        rest /= DIGITS.len();
        if rest == 0 {
            return piece.replace('@', &text);
        }
        rest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_short_and_unique() {
        let numbers: BTreeSet<_> = (0..100_000).map(|number| numbered("@", number)).collect();
        assert_eq!(numbers.len(), 100_000);
        assert!(numbers.iter().all(|number| number.len() <= 4));
    }
}
