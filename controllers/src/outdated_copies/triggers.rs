//! The triggers of the controller of outdated copies.

use super::plan::waits;
use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), ObjectKey>] = &[Trigger {
    source: CellSource::Instances,
    reason: "the Instance waits for the write-back, or no longer",
    keys: |change, ()| {
        let waits = change.versions().any(waits);
        let keys = change.versions().filter(|_| waits).map(ObjectKey::of);
        keys.collect()
    },
}];

#[cfg(test)]
mod tests {
    use api::finalizers::INSTANCE_CONTROLLER;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::metadata;

    #[test]
    fn instances_that_wait_for_the_write_back_wake_the_controller() {
        let instance = |deleted: bool, finalizers: &[&str]| {
            let deletion = deleted.then_some("2026-11-21T09:59:00Z");
            metadata(json!({
                "namespace": "ns-1", "name": "web-0", "finalizers": finalizers, "deletionTimestamp": deletion,
            }))
        };
        let runs = instance(false, &[INSTANCE_CONTROLLER]);
        let waits = instance(true, &[INSTANCE_CONTROLLER]);
        let released = instance(true, &["other"]);
        let own = || vec![ObjectKey::of(&runs)];
        let case = |name, source, former, current, keys| TriggerCase {
            name,
            source,
            former,
            current,
            keys,
        };
        let source = CellSource::Instances;
        #[rustfmt::skip]
        let cases = [
            case("new", source, None, Some(&runs), vec![]),
            case("deleted", source, Some(&runs), Some(&waits), own()),
            case("released", source, Some(&waits), Some(&released), own()),
            case("gone", source, Some(&waits), None, own()),
            case("not of the write-back", source, Some(&released), None, vec![]),
            case("deployment", CellSource::Deployments, None, Some(&waits), vec![]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
