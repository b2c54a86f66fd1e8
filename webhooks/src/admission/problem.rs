//! What is wrong with a field, in the words of Kubernetes (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::path::Path;

/// Takes each problem in turn, with its place.
pub(crate) type Report<'r> = dyn FnMut(&Path<'_>, Problem<'_>) + 'r;

/// Most that an error shows of a value, in bytes: a tenant can write megabytes into any field, and an answer has a hundred
/// errors, each of them twice.
const SHOWN: usize = 128;
/// Most that an error repeats of what others say, in bytes.
const REPEATED: usize = 512;
/// Most that an error says of the values that are supported, in bytes: 54 codes of three letters.
const SUPPORTED: usize = 400;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem<'a> {
    kind: Kind,
    value: Value<'a>,
    detail: Cow<'a, str>,
    /// Stands for what the problem is about, where that is not shown: another such value is another problem.
    subject: u64,
    /// Names the element that had a duplicate value first, where the problem is the first with that value.
    first: Option<&'a str>,
}

/// What a value is not, or must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    NotFound,
    Forbidden,
    Internal,
}

/// The value that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value<'a> {
    None,
    Text(&'a str),
    Number(i64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for Value<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> Problem<'a> {
    fn new(kind: Kind, value: Value<'a>, detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            kind,
            value,
            detail: detail.into(),
            subject: 0,
            first: None,
        }
    }

    /// A value is needed here.
    pub(crate) fn required(detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Kind::Required, Value::None, detail)
    }

    /// The value breaks a rule, which the detail says.
    pub(crate) fn invalid(value: impl Into<Value<'a>>, detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Kind::Invalid, value.into(), detail)
    }

    /// The value is none of those that are known. `supported` is what [`supported`] makes of them.
    pub(crate) fn not_supported(value: &'a str, supported: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Kind::NotSupported, Value::Text(value), supported)
    }

    /// Another element has this value already. `first` names it, if no other duplicate of it has been reported.
    pub(crate) fn duplicate(value: &'a str, first: Option<&'a str>) -> Self {
        Self {
            first,
            ..Self::new(Kind::Duplicate, Value::Text(value), "")
        }
    }

    /// Names the element that the problem is one of as well, although it is not reported there.
    pub(crate) fn first(&self) -> Option<&'a str> {
        self.first
    }

    /// Nothing has the name that is referred to.
    pub(crate) fn not_found(value: &'a str) -> Self {
        Self::new(Kind::NotFound, Value::Text(value), "")
    }

    /// `subject`, which is not shown, must not stand here.
    pub(crate) fn forbidden(subject: impl Hash, detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Kind::Forbidden, Value::None, detail).about(subject)
    }

    /// The same problem with another subject, which is not shown, is another problem.
    pub(crate) fn about(mut self, subject: impl Hash) -> Self {
        self.subject = BuildHasherDefault::<DefaultHasher>::default().hash_one(subject);
        self
    }

    /// It could not be found out whether the value is allowed.
    pub(crate) fn internal(detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Kind::Internal, Value::None, detail)
    }

    /// The `reason` of a `metav1.StatusCause`.
    pub(crate) fn reason(&self) -> &'static str {
        match self.kind {
            Kind::Required => "FieldValueRequired",
            Kind::Invalid => "FieldValueInvalid",
            Kind::NotSupported => "FieldValueNotSupported",
            Kind::Duplicate => "FieldValueDuplicate",
            Kind::NotFound => "FieldValueNotFound",
            Kind::Forbidden => "FieldValueForbidden",
            Kind::Internal => "InternalError",
        }
    }
}

/// Which of several duplicates is the first is not part of what is wrong: it changes with their order.
impl Hash for Problem<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            kind,
            value,
            detail,
            subject,
            first: _,
        } = self;
        (kind, value, detail, subject).hash(state);
    }
}

impl fmt::Display for Problem<'_> {
    /// The message of a `metav1.StatusCause`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Required => "Required value",
            Kind::Invalid => "Invalid value",
            Kind::NotSupported => "Unsupported value",
            Kind::Duplicate => "Duplicate value",
            Kind::NotFound => "Not found",
            Kind::Forbidden => "Forbidden",
            Kind::Internal => "Internal error",
        })?;
        match self.value {
            Value::None => {}
            Value::Text(text) => write!(f, ": {}", Quoted(text))?,
            Value::Number(number) => write!(f, ": {number}")?,
        }
        match self.detail.as_ref() {
            "" => Ok(()),
            detail => write!(f, ": {detail}"),
        }
    }
}

/// A text in quotes, cut off where it is long.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::new();
        for (index, c) in self.0.char_indices() {
            if shown.len() >= SHOWN {
                return write!(f, "\"{shown}\"{}", Cut(self.0.len() - index));
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

/// Stands for so many bytes that are not shown.
struct Cut(usize);

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "... ({} more bytes)", self.0)
    }
}

/// What others say, cut off where it is long.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.split_at(text.floor_char_boundary(REPEATED)) {
        (_, "") => text.into(),
        (shown, rest) => format!("{shown}{}", Cut(rest.len())).into(),
    }
}

/// The detail that lists the values which are supported: the first of them, where there are many.
pub(crate) fn supported<'v>(values: impl IntoIterator<Item = &'v str>) -> String {
    let mut detail = String::new();
    let mut values = values.into_iter();
    while let Some(value) = values.next() {
        let separator = match detail.is_empty() {
            true => "supported values: ",
            false => ", ",
        };
        let value = format!("{separator}{}", Quoted(value));
        if detail.len() + value.len() > SUPPORTED {
            // Writing to a String does not fail.
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
    fn problems_are_worded_as_kubernetes_words_them() {
        for (problem, message) in [
            (Problem::required(""), "Required value"),
            (Problem::required("say what"), "Required value: say what"),
            (
                Problem::invalid("a\"b\n\u{1}ä", "no"),
                r#"Invalid value: "a\"b\n\u0001ä": no"#,
            ),
            (Problem::invalid(-3, "no"), "Invalid value: -3: no"),
            (
                Problem::not_supported("x", supported(["a", "b"])),
                r#"Unsupported value: "x": supported values: "a", "b""#,
            ),
            (Problem::duplicate("x", None), r#"Duplicate value: "x""#),
            (Problem::not_found("x"), r#"Not found: "x""#),
            (Problem::forbidden("{}", "not here"), "Forbidden: not here"),
            (Problem::internal("down"), "Internal error: down"),
        ] {
            assert_eq!(problem.to_string(), message);
        }
    }

    #[test]
    fn a_long_value_is_cut_off_between_characters() {
        let long = "ä".repeat(1000);
        let shown = Problem::duplicate(&long, None).to_string();
        assert!(shown.ends_with("ä\"... (1872 more bytes)"), "{shown}");
        let escaped = Problem::not_found(&"\0".repeat(100)).to_string();
        let expected = format!("Not found: \"{}\"... (78 more bytes)", "\\u0000".repeat(22));
        assert_eq!(escaped, expected);
        let expected = format!("{}... (1488 more bytes)", "ä".repeat(256));
        assert_eq!(shortened(&long), expected);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn of_many_supported_values_the_first_are_listed_and_the_others_counted() {
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
