//! Rules of names, with the messages of `k8s.io/apimachinery/pkg/util/validation`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use api::allowed::{DNS_LABEL_MAX, DNS_SUBDOMAIN_MAX, PORT_NAME_MAX};

use crate::admission::field_error::{ErrorSink, FieldError, FieldPath};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

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

/// Reports a name that is not a DNS subdomain (RFC 1123).
pub(super) fn check_subdomain(path: &FieldPath<'_>, name: &str, report: &mut ErrorSink<'_>) {
    if name.len() > DNS_SUBDOMAIN_MAX {
        let rule = format!("must be no more than {DNS_SUBDOMAIN_MAX} characters");
        report(path, FieldError::invalid(name, rule));
    }
    if !is_subdomain(name) {
        report(path, FieldError::invalid(name, SUBDOMAIN));
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

/// The names of the elements of a list. An element without a name gets the default `<prefix><index>`. The index is that
/// of the element.
pub(super) struct DefaultedNames<'a, T> {
    prefix: &'static str,
    elements: &'a [T],
    /// Returns the name of an element, if it has one.
    name: fn(&'a T) -> Option<&'a str>,
    /// Returns what identifies the element in the list.
    identity: fn(&'a T) -> &'a str,
    seen: UsedValues<'a>,
}

impl<'a, T> DefaultedNames<'a, T> {
    pub(super) fn new(
        prefix: &'static str,
        elements: &'a [T],
        name: fn(&'a T) -> Option<&'a str>,
        identity: fn(&'a T) -> &'a str,
    ) -> Self {
        Self {
            prefix,
            elements,
            name,
            identity,
            seen: UsedValues::new(),
        }
    }

    /// Reports the name of the element at `index` if an earlier element has the same name. The caller must call this
    /// function for each element, in order.
    pub(super) fn check_unique(
        &mut self,
        index: usize,
        path: &FieldPath<'_>,
        element: &'a T,
        report: &mut ErrorSink<'_>,
    ) {
        let Some(name) = (self.name)(element) else {
            let name = format!("{}{index}", self.prefix);
            if let Some(first) = self.seen.get_mut(name.as_str()) {
                report(path, FieldError::duplicate(&name, first.take()));
            }
            return;
        };
        if let Some(earlier) = self.with_default(name, index) {
            let identity = (self.identity)(earlier);
            self.seen.entry(name).or_insert(Some(identity));
        }
        let identity = (self.identity)(element);
        check_unique(path, name, identity, &mut self.seen, report);
    }

    /// Returns the element whose default name is `name`, if its index is lower than `index`.
    fn with_default(&self, name: &str, index: usize) -> Option<&'a T> {
        let digits = name.strip_prefix(self.prefix)?;
        let of: usize = digits.parse().ok()?;
        // The index in a default name has no leading zeros.
        let is_earlier = of < index && of.to_string() == digits;
        let element = self.elements.get(of).filter(|_| is_earlier)?;
        (self.name)(element).is_none().then_some(element)
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

/// Returns whether a name has the form of a DNS subdomain. The length is not checked.
fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

/// Returns whether a name is a DNS subdomain.
pub(super) fn is_valid_subdomain(name: &str) -> bool {
    name.len() <= DNS_SUBDOMAIN_MAX && is_subdomain(name)
}
