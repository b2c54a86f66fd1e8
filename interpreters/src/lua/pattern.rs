//! Patterns of Lua 5.1, with a bound on the work. The C functions of Lua cannot be interrupted while they match, and a
//! pattern of 40 bytes can keep them busy for minutes. Rules: section 5.4.1 of the Lua 5.1 reference manual.

use super::budget::{Budget, Exceeded};

/// Maximum number of captures in a pattern, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Maximum depth of nested items, as in Lua: each capture and each `-`, `*` or `+` is one level.
const NESTED_MAX: usize = 200;

/// Why a pattern was not matched to the end.
#[derive(Debug, PartialEq)]
pub(super) enum PatternError {
    Malformed(&'static str),
    Exceeded(Exceeded),
}

/// A match: the range in the source, and the captures.
#[derive(Debug, PartialEq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Empty if the pattern has no captures.
    pub(super) captures: Vec<Capture>,
}

/// A captured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Capture {
    Range(usize, usize),
    /// Offset of an empty capture `()`.
    Position(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    Position,
    Closed(usize),
}

struct Matcher<'a> {
    source: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, State)>,
    depth: usize,
    budget: &'a Budget,
}

type Found = Result<Option<usize>, PatternError>;

/// Returns the first match at or after `from`.
pub(super) fn find(
    source: &[u8],
    pattern: &[u8],
    from: usize,
    budget: &Budget,
) -> Result<Option<Match>, PatternError> {
    let (is_anchored, pattern) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        whole => (false, whole),
    };
    let mut matcher = Matcher {
        source,
        pattern,
        captures: Vec::new(),
        depth: 0,
        budget,
    };
    for start in from..=source.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.match_at(start, 0)? {
            let captures = matcher.captures.iter().map(|&(start, state)| match state {
                State::Closed(end) => Ok(Capture::Range(start, end)),
                State::Position => Ok(Capture::Position(start)),
                State::Open => Err(PatternError::Malformed("unfinished capture")),
            });
            return Ok(Some(Match {
                start,
                end,
                captures: captures.collect::<Result<_, _>>()?,
            }));
        }
        if is_anchored {
            break;
        }
    }
    Ok(None)
}

/// Returns the offset of the first occurrence of a text at or after `from`.
pub(super) fn find_plain(source: &[u8], text: &[u8], from: usize) -> Option<usize> {
    let rest = source.get(from..)?;
    memchr::memmem::find(rest, text).map(|at| from + at)
}

impl Matcher<'_> {
    fn spend(&self, steps: usize) -> Result<(), PatternError> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.budget.spend(steps).map_err(PatternError::Exceeded)
    }

    fn match_at(&mut self, at: usize, item: usize) -> Found {
        self.depth += 1;
        if self.depth > NESTED_MAX {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        let found = self.match_items(at, item);
        self.depth -= 1;
        found
    }

    /// Matches the items from `item` to the end of the pattern.
    fn match_items(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.spend(1)?;
            let rest = self.pattern.get(item..).unwrap_or_default();
            match rest {
                [] => return Ok(Some(at)),
                [b'(', b')', ..] => return self.capture(at, item + 2, State::Position),
                [b'(', ..] => return self.capture(at, item + 1, State::Open),
                [b')', ..] => return self.end_capture(at, item + 1),
                [b'$'] => return Ok((at == self.source.len()).then_some(at)),
                [b'%', b'b', rest @ ..] => {
                    let &[open, close, ..] = rest else {
                        return Err(PatternError::Malformed("unbalanced pattern"));
                    };
                    match self.balanced(at, open, close)? {
                        Some(end) => (at, item) = (end, item + 4),
                        None => return Ok(None),
                    }
                    continue;
                }
                [b'%', digit @ b'0'..=b'9', ..] => {
                    match self.repeated_capture(at, *digit)? {
                        Some(end) => (at, item) = (end, item + 2),
                        None => return Ok(None),
                    }
                    continue;
                }
                _ => {}
            }
            let end = self.end_of_class(item)?;
            self.spend(end - item)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.is_single(at, item, end) {
                        let captures = self.captures.clone();
                        if let Some(found) = self.match_at(at + 1, end + 1)? {
                            return Ok(Some(found));
                        }
                        self.captures = captures;
                    }
                    item = end + 1;
                }
                Some(b'*') => return self.longest(at, item, end, 0),
                Some(b'+') => return self.longest(at, item, end, 1),
                Some(b'-') => return self.shortest(at, item, end),
                _ => {
                    if !self.is_single(at, item, end) {
                        return Ok(None);
                    }
                    (at, item) = (at + 1, end);
                }
            }
        }
    }

    fn longest(&mut self, at: usize, item: usize, end: usize, least: usize) -> Found {
        let mut count = 0;
        while self.is_single(at + count, item, end) {
            count += 1;
            self.spend(end - item)?;
        }
        let captures = self.captures.clone();
        while count >= least {
            if let Some(found) = self.match_at(at + count, end + 1)? {
                return Ok(Some(found));
            }
            self.captures.clone_from(&captures);
            match count {
                0 => break,
                _ => count -= 1,
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        let captures = self.captures.clone();
        loop {
            if let Some(found) = self.match_at(at, end + 1)? {
                return Ok(Some(found));
            }
            self.captures.clone_from(&captures);
            if !self.is_single(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn capture(&mut self, at: usize, item: usize, state: State) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.captures.push((at, state));
        let found = self.match_at(at, item)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn end_capture(&mut self, at: usize, item: usize) -> Found {
        let mut open = self.captures.iter_mut().rev();
        let Some((_, state)) = open.find(|(_, state)| *state == State::Open) else {
            return Err(PatternError::Malformed("invalid pattern capture"));
        };
        *state = State::Closed(at);
        let count = self.captures.len();
        let found = self.match_at(at, item)?;
        if found.is_none() {
            self.captures.truncate(count);
            // The capture that was closed above is the last one that ends here.
            let mut closed = self.captures.iter_mut().rev();
            if let Some((_, state)) = closed.find(|(_, state)| *state == State::Closed(at)) {
                *state = State::Open;
            }
        }
        Ok(found)
    }

    /// Matches `%b`: a text that begins with `open` and ends with the `close` that belongs to it.
    fn balanced(&self, at: usize, open: u8, close: u8) -> Found {
        let rest = self.source.get(at..).unwrap_or_default();
        if rest.first() != Some(&open) {
            return Ok(None);
        }
        let mut nested = 1_usize;
        for (offset, &byte) in rest.iter().enumerate().skip(1) {
            self.spend(1)?;
            if byte == close {
                nested -= 1;
                if nested == 0 {
                    return Ok(Some(at + offset + 1));
                }
            } else if byte == open {
                nested += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%1` to `%9`: the text of an earlier capture.
    fn repeated_capture(&self, at: usize, digit: u8) -> Found {
        let index = usize::from(digit - b'0').checked_sub(1);
        let capture = index.and_then(|index| self.captures.get(index));
        let Some(&(start, State::Closed(end))) = capture else {
            return Err(PatternError::Malformed("invalid capture index"));
        };
        let text = self.source.get(start..end).unwrap_or_default();
        self.spend(text.len())?;
        let rest = self.source.get(at..).unwrap_or_default();
        Ok(rest.starts_with(text).then_some(at + text.len()))
    }

    /// Returns the end of the class that begins at `item`.
    fn end_of_class(&self, item: usize) -> Result<usize, PatternError> {
        match self.pattern.get(item..).unwrap_or_default() {
            [b'%'] => Err(PatternError::Malformed("malformed pattern (ends with '%')")),
            [b'%', ..] => Ok(item + 2),
            [b'[', rest @ ..] => {
                let mut at = usize::from(rest.first() == Some(&b'^'));
                // The first `]` of a set is an element.
                let first = at;
                loop {
                    match rest.get(at) {
                        None => {
                            return Err(PatternError::Malformed("malformed pattern (missing ']')"));
                        }
                        Some(b']') if at > first => return Ok(item + 1 + at + 1),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Returns whether the byte at `at` belongs to the class from `item` to `end`.
    fn is_single(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.source.get(at) else {
            return false;
        };
        match self.pattern.get(item..end).unwrap_or_default() {
            [b'.'] => true,
            [b'%', class] => is_of_class(byte, *class),
            [b'[', set @ .., b']'] => is_of_set(byte, set),
            [literal] => byte == *literal,
            _ => false,
        }
    }
}

fn is_of_set(byte: u8, set: &[u8]) -> bool {
    let (is_negated, mut rest) = match set {
        [b'^', rest @ ..] => (true, rest),
        whole => (false, whole),
    };
    let mut is_member = false;
    loop {
        rest = match rest {
            [] => break,
            [b'%', class, rest @ ..] => {
                is_member |= is_of_class(byte, *class);
                rest
            }
            [from, b'-', to, rest @ ..] => {
                is_member |= (*from..=*to).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                is_member |= byte == *literal;
                rest
            }
        };
    }
    is_member != is_negated
}

/// Returns whether a byte belongs to a class such as `%d`. The classes are those of the C locale.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is_member != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lua::budget::StopFlag;

    fn found(source: &str, pattern: &str) -> Result<Option<Vec<String>>, PatternError> {
        let budget = Budget::new(1_000_000, StopFlag::default());
        let found = find(source.as_bytes(), pattern.as_bytes(), 0, &budget)?;
        Ok(found.map(|found| {
            let texts = match found.captures.is_empty() {
                true => vec![Capture::Range(found.start, found.end)],
                false => found.captures,
            };
            texts
                .into_iter()
                .map(|capture| match capture {
                    Capture::Range(start, end) => source[start..end].to_owned(),
                    Capture::Position(at) => (at + 1).to_string(),
                })
                .collect()
        }))
    }

    #[test]
    fn patterns_match_as_the_manual_says() {
        for (source, pattern, expected) in [
            ("hello world", "wor", Some(vec!["wor"])),
            ("hello", "^ello", None),
            ("hello", "lo$", Some(vec!["lo"])),
            ("a$b", "a$b", Some(vec!["a$b"])),
            ("2h30m", "([%d%.]+)([hms])", Some(vec!["2", "h"])),
            (
                "key = value",
                "(%w+)%s*=%s*(%w+)",
                Some(vec!["key", "value"]),
            ),
            ("[[x]]", "%[%[(.-)%]%]", Some(vec!["x"])),
            ("f(a(b)c)d", "%b()", Some(vec!["(a(b)c)"])),
            ("'it' 'it'", "(['\"])(.-)%1", Some(vec!["'", "it"])),
            ("abc", "()b()", Some(vec!["2", "3"])),
            ("a]b", "[]]", Some(vec!["]"])),
            ("a-b", "[a%-]+", Some(vec!["a-"])),
            ("abc123", "[^%d]*", Some(vec!["abc"])),
            ("aaa", "a-", Some(vec![""])),
            ("aaab", "a-b", Some(vec!["aaab"])),
            ("aab", "a?ab", Some(vec!["aab"])),
            ("x", "%D", Some(vec!["x"])),
            ("", "x*", Some(vec![""])),
            ("ab", "((a)(b))", Some(vec!["ab", "a", "b"])),
        ] {
            let expected = expected.map(|texts| texts.into_iter().map(str::to_owned).collect());
            assert_eq!(found(source, pattern), Ok(expected), "{source} {pattern}");
        }
    }

    #[test]
    fn a_malformed_pattern_is_an_error() {
        for (pattern, problem) in [
            ("(a", "unfinished capture"),
            ("a)", "invalid pattern capture"),
            ("[a", "malformed pattern (missing ']')"),
            ("%", "malformed pattern (ends with '%')"),
            ("%b", "unbalanced pattern"),
            ("%1", "invalid capture index"),
        ] {
            let expected = Err(PatternError::Malformed(problem));
            assert_eq!(found("aaa", pattern), expected, "{pattern}");
        }
        let many = "(a?)".repeat(40);
        let error = Err(PatternError::Malformed("too many captures"));
        assert_eq!(found("a", &many), error);
    }

    /// In C, this pattern takes seconds, and each further `a?` doubles the time.
    #[test]
    fn a_pattern_that_explodes_ends_with_its_budget() {
        let pattern = format!("{}{}", "a?".repeat(40), "a".repeat(40));
        let budget = Budget::new(100_000, StopFlag::default());
        let source = "a".repeat(39);
        let found = find(source.as_bytes(), pattern.as_bytes(), 0, &budget);
        assert_eq!(found, Err(PatternError::Exceeded(Exceeded::Instructions)));
    }

    #[test]
    fn a_plain_text_is_found_without_patterns() {
        assert_eq!(find_plain(b"a.b.c", b".", 2), Some(3));
        assert_eq!(find_plain(b"abc", b"", 3), Some(3));
        assert_eq!(find_plain(b"abc", b"", 4), None);
        assert_eq!(find_plain(b"abc", b"abcd", 0), None);
    }
}
