//! The errors of an object, in the order in which they were found, and which of them are not new.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::path::Path;
use super::problem::{Problem, Report};

/// Errors that are listed. A hostile object has a million.
pub(crate) const LISTED: usize = 100;

/// One error, as a `metav1.StatusCause` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The errors of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldErrors {
    pub(crate) listed: Vec<FieldError>,
    /// How many more there are.
    pub(crate) more: usize,
}

/// The errors that an object had before an update.
#[derive(Default)]
struct Former {
    hasher: RandomState,
    counts: HashMap<u64, usize>,
}

impl FieldErrors {
    /// The errors that `check` reports.
    pub(crate) fn of(check: impl Fn(&mut Report<'_>)) -> Self {
        let mut errors = Self::default();
        check(&mut |path, problem| errors.add(path, &problem));
        errors
    }

    /// The errors that `check` reports and `former` does not: what was wrong before and has not changed does not stand
    /// in the way of other changes.
    pub(crate) fn new_since(
        former: impl Fn(&mut Report<'_>),
        check: impl Fn(&mut Report<'_>),
    ) -> Self {
        let errors = Self::of(&check);
        if errors.listed.is_empty() {
            return errors;
        }
        let mut known = Former::default();
        former(&mut |path, problem| known.add(path, &problem));
        let mut errors = Self::default();
        check(&mut |path, problem| {
            if !known.take(path, &problem) {
                errors.add(path, &problem);
            }
        });
        errors
    }

    fn add(&mut self, path: &Path<'_>, problem: &Problem<'_>) {
        if self.listed.len() == LISTED {
            self.more += 1;
            return;
        }
        self.listed.push(FieldError {
            field: path.to_string(),
            reason: problem.reason(),
            message: problem.to_string(),
        });
    }
}

impl Former {
    fn add(&mut self, path: &Path<'_>, problem: &Problem<'_>) {
        for place in self.places(path, problem).into_iter().flatten() {
            *self.counts.entry(place).or_default() += 1;
        }
    }

    /// Whether the object had this error once more than it was asked for.
    fn take(&mut self, path: &Path<'_>, problem: &Problem<'_>) -> bool {
        let mut had = true;
        for place in self.places(path, problem).into_iter().flatten() {
            let count = self.counts.get_mut(&place).filter(|count| **count > 0);
            had &= count.map(|count| *count -= 1).is_some();
        }
        had
    }

    /// The error at its place and, for the first duplicate of a value, at that of the element that has the value already:
    /// which of the elements that share it is blamed depends on their order, which elements share it does not.
    fn places(&self, path: &Path<'_>, problem: &Problem<'_>) -> [Option<u64>; 2] {
        let first = problem.first();
        [
            Some(self.hasher.hash_one((path, problem))),
            first.map(|first| self.hasher.hash_one((path.beside(first), problem))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duplicates(list: &[&str], report: &mut Report<'_>) {
        let path = Path::root("list");
        for (index, value) in list.iter().enumerate() {
            if list.iter().take(index).any(|other| other == value) {
                report(&path.element(index, value), Problem::duplicate(value, None));
            }
        }
    }

    fn fields(former: &[&str], list: &[&str]) -> Vec<String> {
        let errors = FieldErrors::new_since(|r| duplicates(former, r), |r| duplicates(list, r));
        errors.listed.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn what_was_wrong_before_is_no_new_error_wherever_it_has_moved() {
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
        let errors = FieldErrors::of(|report| duplicates(&many, report));
        assert_eq!((errors.listed.len(), errors.more), (LISTED, 899));
        let errors = FieldErrors::new_since(
            |report| duplicates(&many[..999], report),
            |report| duplicates(&many, report),
        );
        assert_eq!((errors.listed.len(), errors.more), (1, 0));
    }
}
