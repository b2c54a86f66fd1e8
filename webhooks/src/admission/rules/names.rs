//! Rules of names, with the messages of `k8s.io/apimachinery/pkg/util/validation`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api::allowed::{DNS_LABEL_MAX, PORT_NAME_MAX};

use crate::admission::field_error::{ErrorSink, FieldError, FieldPath};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// The values of the earlier list elements. Each value is stored with the name of the first element that has the value.
/// The name is removed when the first duplicate is reported.
pub(super) type UsedValues<'a> = HashMap<&'a str, Option<&'a str>>;

/// Reports a name that is missing, is not a DNS label, or is the name of an earlier element.
pub(super) fn check_unique_label<'a>(
    path: &FieldPath<'_>,
    name: &'a str,
    seen: &mut UsedValues<'a>,
    report: &mut ErrorSink<'_>,
) {
    if name.is_empty() {
        return report(path, FieldError::required(""));
    }
    check_label(path, name, report);
    check_unique(path, name, name, seen, report);
}

/// Reports a name that is not a DNS label (RFC 1123).
pub(super) fn check_label(path: &FieldPath<'_>, name: &str, report: &mut ErrorSink<'_>) {
    if name.len() > DNS_LABEL_MAX {
        report(
            path,
            FieldError::invalid(
                name,
                format!("must be no more than {DNS_LABEL_MAX} characters"),
            ),
        );
    }
    if !is_label(name) {
        report(path, FieldError::invalid(name, LABEL));
    }
}

/// Reports a value that an earlier element also has. `element` is the name of the current element.
pub(super) fn check_unique<'a>(
    path: &FieldPath<'_>,
    value: &'a str,
    element: &'a str,
    seen: &mut UsedValues<'a>,
    report: &mut ErrorSink<'_>,
) {
    match seen.entry(value) {
        Entry::Vacant(entry) => drop(entry.insert(Some(element))),
        Entry::Occupied(mut entry) => {
            let first = entry.get_mut().take();
            report(path, FieldError::duplicate(value, first));
        }
    }
}

/// Reports a name that is not an IANA service name (RFC 6335, section 5.1).
pub(super) fn check_port_name(path: &FieldPath<'_>, name: &str, report: &mut ErrorSink<'_>) {
    let is_known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let rules = [
        (
            name.len() > PORT_NAME_MAX,
            "must be no more than 15 characters",
        ),
        (
            !name.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !name.bytes().any(|b| b.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    for (_, rule) in rules.into_iter().filter(|(broken, _)| *broken) {
        report(path, FieldError::invalid(name, rule));
    }
}

/// Returns whether a name has the characters of a DNS label. The length is not checked.
fn is_label(name: &str) -> bool {
    let is_alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(is_alphanumeric))
        && name.bytes().all(|b| is_alphanumeric(b) || b == b'-')
}

/// Returns whether a name is a DNS label.
pub(super) fn is_valid_label(name: &str) -> bool {
    name.len() <= DNS_LABEL_MAX && is_label(name)
}
