//! The error of one field, with the messages of Kubernetes (`field.Error`).

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::path::FieldPath;
use super::quote::Quoted;

/// Receives each error with its path. The order is the order in which the rules find the errors.
pub(crate) type ErrorSink<'r> = dyn FnMut(&FieldPath<'_>, FieldError<'_>) + 'r;

/// The error of one field.
///
/// `Hash` identifies the error. An update may keep an error that the object had before (see [`super::FieldErrorList`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError<'a> {
    error_type: ErrorType,
    value: BadValue<'a>,
    detail: Cow<'a, str>,
    /// Hash of a value that is not in the message. Two errors with different hashes are different errors.
    hidden: u64,
    /// The name of the first list element with the value. Set only for the first duplicate of the value.
    first: Option<&'a str>,
}

/// The type of the error (`field.ErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ErrorType {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    NotFound,
    Forbidden,
    TooMany,
    Internal,
}

/// The value in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BadValue<'a> {
    None,
    Text(&'a str),
    Number(i64),
}

impl<'a> From<&'a str> for BadValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for BadValue<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> FieldError<'a> {
    fn new(error_type: ErrorType, value: BadValue<'a>, detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            error_type,
            value,
            detail: detail.into(),
            hidden: 0,
            first: None,
        }
    }

    /// Returns an error: the field must have a value.
    pub(crate) fn required(detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::Required, BadValue::None, detail)
    }

    /// Returns an error: the value violates the rule in `detail`.
    pub(crate) fn invalid(value: impl Into<BadValue<'a>>, detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::Invalid, value.into(), detail)
    }

    /// Returns an error: the value is not a supported value. `supported` is the text with the supported values (see
    /// [`super::supported`]).
    pub(crate) fn not_supported(value: &'a str, supported: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::NotSupported, BadValue::Text(value), supported)
    }

    /// Returns an error: an earlier list element has the same value. For the first duplicate of a value, `first` is the
    /// name of the first element with the value.
    pub(crate) fn duplicate(value: &'a str, first: Option<&'a str>) -> Self {
        Self {
            first,
            ..Self::new(ErrorType::Duplicate, BadValue::Text(value), "")
        }
    }

    /// Returns the name of the first list element with the value, if this error is the first duplicate of the value.
    pub(crate) fn first(&self) -> Option<&'a str> {
        self.first
    }

    /// Returns an error: the value refers to an object that does not exist.
    pub(crate) fn not_found(value: &'a str) -> Self {
        Self::new(ErrorType::NotFound, BadValue::Text(value), "")
    }

    /// Returns an error: the field must not be set. The message does not contain `value`.
    pub(crate) fn forbidden(value: impl Hash, detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::Forbidden, BadValue::None, detail).about(value)
    }

    /// Makes the error specific to a value that is not in the message.
    pub(crate) fn about(mut self, value: impl Hash) -> Self {
        self.hidden = BuildHasherDefault::<DefaultHasher>::default().hash_one(value);
        self
    }

    /// Returns an error: the field has too many elements.
    pub(crate) fn too_many(detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::TooMany, BadValue::None, detail)
    }

    /// Returns an error: the server could not check whether the value is allowed.
    pub(crate) fn internal(detail: impl Into<Cow<'a, str>>) -> Self {
        Self::new(ErrorType::Internal, BadValue::None, detail)
    }

    /// Returns the `reason` of the `metav1.StatusCause`.
    pub(crate) fn reason(&self) -> &'static str {
        match self.error_type {
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::Internal => "InternalError",
        }
    }
}

/// Omits `first`. The order of two duplicates decides which element is the first one. The order does not change the
/// error.
impl Hash for FieldError<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            error_type,
            value,
            detail,
            hidden,
            first: _,
        } = self;
        (error_type, value, detail, hidden).hash(state);
    }
}

impl fmt::Display for FieldError<'_> {
    /// Prints the `message` of the `metav1.StatusCause`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.error_type {
            ErrorType::Required => "Required value",
            ErrorType::Invalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::NotFound => "Not found",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooMany => "Too many",
            ErrorType::Internal => "Internal error",
        })?;
        match self.value {
            BadValue::None => {}
            BadValue::Text(text) => write!(f, ": {}", Quoted(text))?,
            BadValue::Number(number) => write!(f, ": {number}")?,
        }
        match self.detail.as_ref() {
            "" => Ok(()),
            detail => write!(f, ": {detail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quote::supported;
    use super::*;

    #[test]
    fn messages_are_those_of_kubernetes() {
        for (error, message) in [
            (FieldError::required(""), "Required value"),
            (FieldError::required("say what"), "Required value: say what"),
            (
                FieldError::invalid("a\"b\n\u{1}ä", "no"),
                r#"Invalid value: "a\"b\n\u0001ä": no"#,
            ),
            (FieldError::invalid(-3, "no"), "Invalid value: -3: no"),
            (
                FieldError::not_supported("x", supported(["a", "b"])),
                r#"Unsupported value: "x": supported values: "a", "b""#,
            ),
            (FieldError::duplicate("x", None), r#"Duplicate value: "x""#),
            (FieldError::not_found("x"), r#"Not found: "x""#),
            (
                FieldError::forbidden("{}", "not here"),
                "Forbidden: not here",
            ),
            (
                FieldError::too_many("must have at most 2 lines"),
                "Too many: must have at most 2 lines",
            ),
            (FieldError::internal("down"), "Internal error: down"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn a_long_value_is_cut_off_in_the_message() {
        let long = "ä".repeat(1000);
        let shown = FieldError::duplicate(&long, None).to_string();
        assert!(shown.ends_with("ä\"... (1872 more bytes)"), "{shown}");
        let escaped = FieldError::not_found(&"\0".repeat(100)).to_string();
        let expected = format!("Not found: \"{}\"... (78 more bytes)", "\\u0000".repeat(22));
        assert_eq!(escaped, expected);
    }
}
