//! Finds conditions by type. A cell can report a hundred thousand conditions.

use std::cmp::Ordering;

use super::condition::ConditionView;

/// Number of conditions up to which a linear search is faster than an index. Cells report two or three conditions.
const FEW: usize = 8;

/// Finds conditions of one list by type. The CRD allows several conditions of one type; the first one is found.
pub(super) enum ConditionIndex<'c, 'a> {
    Few(&'c [ConditionView<'a>]),
    /// Sorted by type. Conditions of one type are in the order of the list.
    Many(Vec<&'c ConditionView<'a>>),
}

impl<'c, 'a> ConditionIndex<'c, 'a> {
    pub(super) fn of(conditions: &'c [ConditionView<'a>]) -> Self {
        if conditions.len() <= FEW {
            return Self::Few(conditions);
        }
        let mut sorted: Vec<_> = conditions.iter().collect();
        sorted.sort_by(|one, other| compared(&one.type_, &other.type_));
        Self::Many(sorted)
    }

    /// Returns the first condition of this type.
    pub(super) fn find(&self, type_: &str) -> Option<&'c ConditionView<'a>> {
        match self {
            Self::Few(conditions) => conditions
                .iter()
                .find(|condition| compared(&condition.type_, type_).is_eq()),
            Self::Many(sorted) => {
                let first = sorted.partition_point(|c| compared(&c.type_, type_).is_lt());
                let found = sorted.get(first).copied();
                found.filter(|condition| condition.type_ == type_)
            }
        }
    }
}

/// Compares two types. Tests count the comparisons.
pub(super) fn compared(one: &str, other: &str) -> Ordering {
    #[cfg(test)]
    crate::steps::count();
    one.cmp(other)
}

/// A type of conditions as a key. Tests count its comparisons.
#[derive(Clone, Copy)]
pub(super) struct TypeKey<'c>(pub(super) &'c str);

impl Ord for TypeKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compared(self.0, other.0)
    }
}

impl PartialOrd for TypeKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TypeKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TypeKey<'_> {}

#[cfg(test)]
mod tests {
    use api::ConditionStatus;

    use super::*;

    #[test]
    fn the_first_condition_of_a_type_is_found_in_short_and_in_long_lists() {
        for count in [0, 1, FEW, FEW + 1, 100] {
            let conditions: Vec<_> = (0..count)
                .map(|number| ConditionView {
                    last_transition_time: number.to_string().into(),
                    message: "".into(),
                    observed_generation: None,
                    reason: "".into(),
                    status: ConditionStatus::True,
                    type_: (number * 7 % 5).to_string().into(),
                })
                .collect();
            let index = ConditionIndex::of(&conditions);
            for type_ in ["", "0", "1", "2", "3", "4", "5"] {
                let first = conditions.iter().find(|condition| condition.type_ == type_);
                assert_eq!(index.find(type_), first, "{count} {type_}");
            }
        }
    }
}
