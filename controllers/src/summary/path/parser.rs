//! The parser of paths.

use std::iter::Peekable;
use std::str::CharIndices;

use super::segment::{Comparison, Literal, Segment, Step};

/// Parses a path.
///
/// # Errors
///
/// A sentence that names the position and what is expected there.
pub(super) fn parse(text: &str) -> Result<Vec<Segment>, String> {
    let mut parser = Parser {
        text,
        rest: text.char_indices().peekable(),
    };
    parser.expect("$")?;
    let mut segments = Vec::new();
    while let Some(segment) = parser.segment()? {
        segments.push(segment);
    }
    match parser.rest.peek() {
        None => Ok(segments),
        Some(_) => Err(parser.problem("`.`, `[` or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
}

impl Parser<'_> {
    /// Returns the next segment. Returns `None` if there is none.
    fn segment(&mut self) -> Result<Option<Segment>, String> {
        if self.takes(".") {
            return Ok(Some(Segment::Step(Step::Name(self.name()?))));
        }
        if !self.takes("[") {
            return Ok(None);
        }
        self.skip_spaces();
        let segment = match self.takes("?") {
            true => Segment::Filter(self.filter()?),
            false => Segment::Step(self.bracketed()?),
        };
        self.skip_spaces();
        self.expect("]")?;
        Ok(Some(segment))
    }

    /// Reads the comparisons of a filter. They may be in parentheses, as in the JSONPath of kubectl.
    fn filter(&mut self) -> Result<Vec<Comparison>, String> {
        self.skip_spaces();
        let is_closed = self.takes("(");
        let mut comparisons = Vec::new();
        loop {
            self.skip_spaces();
            comparisons.push(self.comparison()?);
            self.skip_spaces();
            if !self.takes("&&") {
                break;
            }
        }
        if is_closed {
            self.expect(")")?;
        }
        Ok(comparisons)
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        self.expect("@")?;
        let mut of = Vec::new();
        loop {
            if self.takes(".") {
                of.push(Step::Name(self.name()?));
            } else if self.takes("[") {
                self.skip_spaces();
                of.push(self.bracketed()?);
                self.skip_spaces();
                self.expect("]")?;
            } else {
                break;
            }
        }
        self.skip_spaces();
        let is_equal = self.takes("==");
        if !is_equal && !self.takes("!=") {
            return Err(self.problem("`==` or `!=`"));
        }
        self.skip_spaces();
        let literal = self.literal()?;
        Ok(Comparison {
            of,
            is_equal,
            literal,
        })
    }

    /// Reads a name in quotes or an index.
    fn bracketed(&mut self) -> Result<Step, String> {
        match self.quoted()? {
            Some(name) => Ok(Step::Name(name)),
            None => match self.integer() {
                Some(index) => Ok(Step::Index(index)),
                None => Err(self.problem("a name in quotes, an index or `?`")),
            },
        }
    }

    fn literal(&mut self) -> Result<Literal, String> {
        if let Some(text) = self.quoted()? {
            return Ok(Literal::Text(text));
        }
        if self.takes("true") {
            return Ok(Literal::Bool(true));
        }
        if self.takes("false") {
            return Ok(Literal::Bool(false));
        }
        match self.integer() {
            Some(integer) => Ok(Literal::Integer(integer)),
            None => Err(self.problem("a text in quotes, an integer, `true` or `false`")),
        }
    }

    /// Reads a name without quotes.
    fn name(&mut self) -> Result<String, String> {
        let is_first = |it: char| it.is_ascii_alphabetic() || it == '_' || !it.is_ascii();
        let mut name = String::new();
        let allowed =
            |name: &str, it: char| is_first(it) || !name.is_empty() && it.is_ascii_digit();
        while let Some((_, next)) = self.rest.next_if(|(_, it)| allowed(&name, *it)) {
            name.push(next);
        }
        match name.is_empty() {
            true => Err(self.problem("a name; other names are written as ['name']")),
            false => Ok(name),
        }
    }

    /// Reads a text in quotes. Returns `None` if there is no quote.
    fn quoted(&mut self) -> Result<Option<String>, String> {
        let Some((_, quote)) = self.rest.next_if(|(_, it)| matches!(it, '\'' | '"')) else {
            return Ok(None);
        };
        let mut text = String::new();
        loop {
            match self.rest.next().map(|(_, it)| it) {
                Some(end) if end == quote => return Ok(Some(text)),
                Some('\\') => match self.rest.next_if(|(_, it)| matches!(it, '\\' | '\'' | '"')) {
                    Some((_, escaped)) => text.push(escaped),
                    None => return Err(self.problem("a quote or `\\` after `\\`")),
                },
                Some(other) => text.push(other),
                None => return Err(self.problem(&format!("`{quote}`"))),
            }
        }
    }

    /// Reads an integer. Returns `None` if there is none, or if it is out of range.
    fn integer(&mut self) -> Option<i64> {
        let mut rest = self.rest.clone();
        let mut digits = String::new();
        while let Some((_, next)) =
            rest.next_if(|(_, it)| it.is_ascii_digit() || digits.is_empty() && *it == '-')
        {
            digits.push(next);
        }
        let integer = digits.parse().ok()?;
        self.rest = rest;
        Some(integer)
    }

    fn skip_spaces(&mut self) {
        while self.rest.next_if(|(_, it)| it.is_whitespace()).is_some() {}
    }

    /// Reads this text, if it is next.
    fn takes(&mut self, wanted: &str) -> bool {
        let mut rest = self.rest.clone();
        let is_next = wanted
            .chars()
            .all(|it| rest.next().is_some_and(|(_, next)| next == it));
        if is_next {
            self.rest = rest;
        }
        is_next
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.takes(wanted) {
            true => Ok(()),
            false => Err(self.problem(&format!("`{wanted}`"))),
        }
    }

    /// Returns a sentence about the next character.
    fn problem(&mut self, expected: &str) -> String {
        let (at, found) = match self.rest.peek() {
            Some((at, found)) => (*at, format!("not `{found}`")),
            None => (self.text.len(), "but the path ends".to_owned()),
        };
        let before = self.text.get(..at).unwrap_or_default();
        let position = before.chars().count() + 1;
        format!("character {position}: {expected} is expected, {found}")
    }
}
