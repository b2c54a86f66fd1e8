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
        source: CellSource::AfterLastInstance,
        reason: "the hub may have kept a copy of an Instance that the cell no longer has",
        keys: |change, ()| change.current.map(ObjectKey::of).into_iter().collect(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::named;

    #[test]
    fn an_instance_and_the_one_after_the_last_wake_the_write_back() {
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
            case("after the last", CellSource::AfterLastInstance, None, it, own()),
            case("deployment", CellSource::Deployments, None, it, vec![]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
