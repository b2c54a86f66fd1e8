//! The triggers of the instance write-back. The write-back does not watch the hub, because the source of every copy is
//! in the cell.

use crate::outdated_copies::record::recorded;
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
    Trigger {
        source: CellSource::Deployments,
        reason: "the hub may have an outdated copy of the Instance",
        keys: |change, ()| {
            let keys = change.current.map(|deployment| {
                let key = |name| ObjectKey {
                    name,
                    ..ObjectKey::of(deployment)
                };
                recorded(deployment).into_iter().map(key).collect()
            });
            keys.unwrap_or_default()
        },
    },
];

#[cfg(test)]
mod tests {
    use api::annotations::OUTDATED_COPIES;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{metadata, named};

    #[test]
    fn instances_and_absent_ones_wake_the_write_back() {
        let instance = named("ns-1", "web-0");
        let own = || vec![ObjectKey::of(&instance)];
        let web = metadata(json!({
            "namespace": "ns-1", "name": "web", "annotations": {OUTDATED_COPIES: r#"["web-0"]"#},
        }));
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
            case("outdated copies", CellSource::Deployments, None, Some(&web), own()),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
