//! Request bodies of any size that make the server work as hard as possible. Each generator repeats one small piece of
//! JSON. Tests, the fuzz target `memory` and benchmarks use the same bodies. The program `hostile` writes the bodies
//! into files.

mod admission;
mod interpretation;

/// The body of one request, and a name for the body.
pub struct HostileBody {
    /// The name of the generator.
    pub name: &'static str,
    /// The request.
    pub body: Vec<u8>,
}

/// A generator of one part of a request: its name, the text before the repeated piece, the repeated piece, and the text
/// after the repeated piece.
struct Generator {
    name: &'static str,
    before: String,
    piece: &'static str,
    after: String,
}

/// Returns requests of Karmada. Each has at most `bytes` bytes, if `bytes` has room for one repetition.
pub fn interpretations(bytes: usize) -> Vec<HostileBody> {
    bodies(interpretation::generators(), bytes)
}

/// Returns requests of an API server. Each has at most `bytes` bytes, if `bytes` has room for one repetition.
pub fn admissions(bytes: usize) -> Vec<HostileBody> {
    bodies(admission::generators(), bytes)
}

fn bodies(generators: Vec<Generator>, bytes: usize) -> Vec<HostileBody> {
    generators
        .into_iter()
        .map(|generator| HostileBody {
            name: generator.name,
            body: generator.body(bytes),
        })
        .collect()
}

impl Generator {
    fn new(
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
    fn body(&self, bytes: usize) -> Vec<u8> {
        let room = bytes.saturating_sub(self.before.len() + self.after.len());
        let mut repeated = String::new();
        for number in 0.. {
            let piece = numbered(self.piece, number);
            if !repeated.is_empty() && repeated.len() + piece.len() > room {
                break;
            }
            repeated.push_str(&piece);
        }
        let repeated = repeated.strip_suffix(',').unwrap_or(&repeated);
        [&self.before, repeated, &self.after].concat().into_bytes()
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
    fn bodies_have_the_size_and_numbers_are_unique() {
        for hostile in interpretations(10_000)
            .into_iter()
            .chain(admissions(10_000))
        {
            let size = hostile.body.len();
            assert!((9_000..=10_000).contains(&size), "{}: {size}", hostile.name);
        }
        let numbers: BTreeSet<_> = (0..100_000).map(|number| numbered("@", number)).collect();
        assert_eq!(numbers.len(), 100_000);
        assert!(numbers.iter().all(|number| number.len() <= 4));
    }
}
