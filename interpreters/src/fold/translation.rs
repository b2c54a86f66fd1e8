//! The translation of generations: a generation of a cell's object becomes a generation of the hub object. See
//! docs/concepts/status.md#generations.

use std::collections::BTreeSet;

use super::cell_view::{CellView, Source};
use super::condition::ConditionView;
use super::condition_index::{ConditionIndex, TypeKey};

/// The facts that decide which generation of the hub object a status or a condition is for.
#[derive(Clone, Copy)]
pub(super) struct Translation {
    /// `metadata.generation` of the hub object.
    pub(super) generation: Option<i64>,
    /// Whether all cells have acted on this generation.
    pub(super) is_current: bool,
}

impl Translation {
    /// Returns the generation of the hub object. `is_carried` is whether the cells report a generation. `former` is the
    /// last known generation of the hub object.
    pub(super) fn translate(
        self,
        is_carried: bool,
        is_up_to_date: bool,
        former: Option<i64>,
    ) -> Option<i64> {
        match is_carried {
            true if self.is_current && is_up_to_date => self.generation,
            true => former,
            false => None,
        }
    }

    /// Translates the generations of the joined conditions. `formers` are the conditions on the hub. `items` are the
    /// views of the items: a lower hub has translated the generations of its cells into those of its object.
    pub(super) fn translate_conditions(
        self,
        conditions: &mut [ConditionView<'_>],
        formers: &[ConditionView<'_>],
        items: &[CellView<'_, '_>],
    ) {
        let outdated = match self.is_current {
            true => OutdatedTypes::of(items),
            false => OutdatedTypes::default(),
        };
        let by_type = ConditionIndex::of(formers);
        for (index, condition) in conditions.iter_mut().enumerate() {
            // The CRD allows two conditions of one type. In this case the index identifies the condition.
            let former = formers
                .get(index)
                .filter(|former| former.type_ == condition.type_)
                .or_else(|| by_type.find(&condition.type_));
            condition.observed_generation = self.translate(
                condition.observed_generation.is_some(),
                !outdated.contains(&condition.type_),
                former.and_then(|former| former.observed_generation),
            );
        }
    }
}

/// The types of conditions that an item has reported for another generation than its own. If an item has several
/// conditions of one type, the first one counts.
#[derive(Default)]
struct OutdatedTypes<'c>(BTreeSet<TypeKey<'c>>);

impl<'c> OutdatedTypes<'c> {
    fn of(items: &'c [CellView<'_, '_>]) -> Self {
        let mut types = BTreeSet::new();
        for item in items {
            let Source::Report(report) = item.source else {
                continue;
            };
            let is_outdated = |condition: &&ConditionView<'_>| {
                condition.observed_generation != report.generations.generation
            };
            if item
                .conditions()
                .iter()
                .any(|condition| is_outdated(&condition))
            {
                let by_type = ConditionIndex::of(item.conditions());
                let outdated = item.conditions().iter().filter(is_outdated);
                types.extend(
                    outdated
                        .filter(|condition| {
                            by_type
                                .find(&condition.type_)
                                .is_some_and(|first| is_outdated(&first))
                        })
                        .map(|condition| TypeKey(&condition.type_)),
                );
            }
        }
        Self(types)
    }

    fn contains(&self, type_: &str) -> bool {
        self.0.contains(&TypeKey(type_))
    }
}
