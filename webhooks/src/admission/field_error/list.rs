//! The errors of one object. The order is the order in which the rules report the errors.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use super::error::{ErrorSink, FieldError};
use super::path::FieldPath;
use super::warnings::Warnings;

/// Maximum number of errors in an answer. Further errors are only counted. A hostile object can have a million errors.
pub(crate) const LISTED_MAX: usize = 100;

/// One error, as a `metav1.StatusCause`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StatusCause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

/// The errors of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldErrorList {
    pub(crate) listed: Vec<StatusCause>,
    /// The number of errors that are not in `listed`.
    pub(crate) more: usize,
    /// The errors that the object had before the update.
    pub(crate) tolerated: Warnings,
}

/// Counts each error that an object had before an update.
#[derive(Default)]
struct FormerErrors {
    hasher: RandomState,
    counts: HashMap<u64, usize>,
}

impl FieldErrorList {
    /// Collects the errors that `check` reports.
    pub(crate) fn of(check: impl Fn(&mut ErrorSink<'_>)) -> Self {
        let mut errors = Self::default();
        check(&mut |path, error| errors.add(path, &error));
        errors
    }

    /// Collects the errors that `check` reports and `former` does not report. An update must not fail because of an
    /// error that the object had before.
    pub(crate) fn new_since(
        former: impl Fn(&mut ErrorSink<'_>),
        check: impl Fn(&mut ErrorSink<'_>),
    ) -> Self {
        let errors = Self::of(&check);
        if errors.listed.is_empty() {
            return errors;
        }
        let mut known = FormerErrors::default();
        former(&mut |path, error| known.add(path, &error));
        let mut errors = Self::default();
        check(&mut |path, error| match known.take(path, &error) {
            true => errors.tolerated.add(path, &error),
            false => errors.add(path, &error),
        });
        errors
    }

    fn add(&mut self, path: &FieldPath<'_>, error: &FieldError<'_>) {
        if self.listed.len() == LISTED_MAX {
            self.more += 1;
            return;
        }
        self.listed.push(StatusCause {
            field: path.to_string(),
            reason: error.reason(),
            message: error.to_string(),
        });
    }
}

impl FormerErrors {
    fn add(&mut self, path: &FieldPath<'_>, error: &FieldError<'_>) {
        for hash in self.hashes(path, error).into_iter().flatten() {
            *self.counts.entry(hash).or_default() += 1;
        }
    }

    /// Removes one occurrence of the error from the counts. Returns whether there was one.
    fn take(&mut self, path: &FieldPath<'_>, error: &FieldError<'_>) -> bool {
        let mut had = true;
        for hash in self.hashes(path, error).into_iter().flatten() {
            let count = self.counts.get_mut(&hash).filter(|count| **count > 0);
            had &= count.map(|count| *count -= 1).is_some();
        }
        had
    }

    /// Returns the hash of the error at its path. If the error is the first duplicate of a value, also returns the hash
    /// of the error at the path of the first element with this value. The order of the elements decides which element
    /// gets the error. A new order alone must not make the error new.
    fn hashes(&self, path: &FieldPath<'_>, error: &FieldError<'_>) -> [Option<u64>; 2] {
        let first = error.first();
        [
            Some(self.hasher.hash_one((path, error))),
            first.map(|first| self.hasher.hash_one((path.in_sibling(first), error))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duplicates(list: &[&str], report: &mut ErrorSink<'_>) {
        let path = FieldPath::root("list");
        for (index, value) in list.iter().enumerate() {
            if list.iter().take(index).any(|other| other == value) {
                report(
                    &path.element(index, value),
                    FieldError::duplicate(value, None),
                );
            }
        }
    }

    fn fields(former: &[&str], list: &[&str]) -> Vec<String> {
        let errors = FieldErrorList::new_since(|r| duplicates(former, r), |r| duplicates(list, r));
        errors.listed.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_former_error_is_not_new_even_if_its_element_moved() {
        let none: [&str; 0] = [];
        assert_eq!(fields(&["a", "a"], &["a", "a"]), none);
        assert_eq!(fields(&["a", "a"], &["b", "a", "a"]), none);
        assert_eq!(fields(&["a", "a"], &["a", "a", "a"]), ["list[2]"]);
        assert_eq!(fields(&["a", "a"], &["b", "b"]), ["list[1]"]);
        assert_eq!(fields(&[], &["a", "a"]), ["list[1]"]);
    }

    #[test]
    fn only_the_first_errors_are_listed_and_all_are_counted() {
        let many = ["x"; 1000];
        let errors = FieldErrorList::of(|report| duplicates(&many, report));
        assert_eq!((errors.listed.len(), errors.more), (LISTED_MAX, 899));
        let errors = FieldErrorList::new_since(
            |report| duplicates(&many[..999], report),
            |report| duplicates(&many, report),
        );
        assert_eq!((errors.listed.len(), errors.more), (1, 0));
        let warnings = errors.tolerated.into_texts();
        assert_eq!(warnings.len(), 9);
        assert_eq!(
            warnings[0],
            "not valid, but was so before: list[1]: Duplicate value: \"x\""
        );
        assert_eq!(warnings[8], "and 990 more errors that were there before");
    }
}
