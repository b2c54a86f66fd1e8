//! The objects of which variations are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use interpreters::InterpretedKind;
use interpreters::comparison::Subject;

/// Most objects of one kind.
const OF_KIND_MAX: usize = 200;

/// The first objects of each kind, sorted by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Bases(BTreeMap<InterpretedKind, Vec<Arc<Subject>>>);

impl Bases {
    /// Returns whether there is room for another object of this kind.
    pub(super) fn has_room(&self, kind: InterpretedKind) -> bool {
        self.0.get(&kind).map_or(0, Vec::len) < OF_KIND_MAX
    }

    /// Adds an object of the hub.
    pub(super) fn add(&mut self, kind: InterpretedKind, subject: Subject) {
        self.0.entry(kind).or_default().push(Arc::new(subject));
    }

    /// Adds a sample for each of these kinds without an object. Sorts the objects.
    pub(super) fn complete(&mut self, kinds: impl Iterator<Item = InterpretedKind>) {
        for kind in kinds {
            let of_kind = self.0.entry(kind).or_default();
            if of_kind.is_empty() {
                of_kind.push(Arc::new(Subject::sample(kind)));
            }
            of_kind.sort_by(|one, other| one.key().cmp(&other.key()));
        }
    }

    /// Returns the object that is varied with this seed. The kinds take turns.
    pub(super) fn of_seed(&self, seed: u64) -> Option<(InterpretedKind, &Arc<Subject>)> {
        let number = usize::try_from(seed % (1 << 31)).ok()?;
        let turn = number.checked_rem(self.0.len())?;
        let (kind, of_kind) = self.0.iter().nth(turn)?;
        let index = (number / self.0.len()).checked_rem(of_kind.len())?;
        Some((*kind, of_kind.get(index)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_take_turns() {
        let mut bases = Bases::default();
        assert!(bases.of_seed(0).is_none());
        for number in (0..300).rev() {
            let mut subject = Subject::sample(InterpretedKind::WorkloadDeployment);
            subject.object["metadata"]["name"] = format!("web-{number:03}").into();
            if bases.has_room(InterpretedKind::WorkloadDeployment) {
                bases.add(InterpretedKind::WorkloadDeployment, subject);
            }
        }
        bases.complete(InterpretedKind::ALL.into_iter());
        let varied: Vec<_> = (0..1000).filter_map(|seed| bases.of_seed(seed)).collect();
        let instances = varied
            .iter()
            .filter(|(kind, _)| *kind == InterpretedKind::Instance);
        assert_eq!((varied.len(), instances.count()), (1000, 500));
        let name = |seed| bases.of_seed(seed).unwrap().1.key().1.to_owned();
        assert_eq!(
            [name(0), name(2), name(400)],
            ["web-100", "web-101", "web-100"]
        );
        assert_eq!(name(1), "sample");
        assert!(bases.of_seed(u64::MAX).is_some());
    }
}
