//! The triggers of the instance write-back. The write-back does not watch the hub, because the source of every copy is
//! in the cell.

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), ObjectKey>] = &[
    Trigger {
        source: CellSource::Instances,
        reason: "the Instance changed",
        keys: |change, ()| change.versions().map(ObjectKey::of).collect(),
    },
    Trigger {
        source: CellSource::AbsentInstances,
        reason: "the hub may have a copy of an Instance that the cell does not have",
        keys: |change, ()| change.current.map(ObjectKey::of).into_iter().collect(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::named;

    #[test]
    fn instances_and_absent_ones_wake_the_write_back() {
        let instance = named("ns-1", "web-0");
        let own = || vec![ObjectKey::of(&instance)];
        let case = |name, source, former, current, keys| TriggerCase {
            name,
            source,
            former,
            current,
            keys,
        };
        let (instances, it) = (CellSource::Instances, Some(&instance));
        #[rustfmt::skip]
        let cases = [
            case("new", instances, None, it, own()),
            case("changed", instances, it, it, own()),
            case("deleted", instances, it, None, own()),
            case("absent", CellSource::AbsentInstances, None, it, own()),
            case("deployment", CellSource::Deployments, None, it, vec![]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
