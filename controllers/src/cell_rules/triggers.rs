//! The triggers of the controller of the rules of cells.

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{HubSource, Trigger};

/// Returns the only key: all rules are reconciled together.
pub(crate) fn all_rules() -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: super::POLICY.to_owned(),
    }
}

pub(crate) const ON_HUB: &[Trigger<HubSource, (), ObjectKey>] = &[
    Trigger {
        source: HubSource::CellRules,
        reason: "a rule, or the list of rules, has changed",
        keys: |_, ()| vec![all_rules()],
    },
    Trigger {
        source: HubSource::OverridePolicies,
        reason: "the policy with the rules, or the list of policies, has changed",
        keys: |change, ()| {
            let is_ours = |name: Option<&str>| name.is_none_or(|name| name == super::POLICY);
            let metadata = change.current.or(change.former);
            let name = metadata.and_then(|it| it.name.as_deref());
            is_ours(name).then(all_rules).into_iter().collect()
        },
    },
    Trigger {
        source: HubSource::Clusters,
        reason: "the labels of a cell, or the list of cells, have changed",
        keys: |change, ()| {
            let labels = [change.former, change.current].map(|it| it.map(|it| it.labels.as_ref()));
            let [former, current] = labels;
            let is_due = former.is_none() || former != current;
            is_due.then(all_rules).into_iter().collect()
        },
    },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::NO_OBJECT;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::metadata;

    #[test]
    fn what_decides_about_rules_wakes_the_controller() {
        let named = |name: &str, version: &str, label: &str| {
            metadata(json!({"name": name, "resourceVersion": version, "labels": {"a": label}}))
        };
        let [old, new, relabelled] = [("1", "x"), ("2", "x"), ("3", "y")]
            .map(|(version, label)| named("dfw1", version, label));
        let policy = named(crate::cell_rules::POLICY, "1", "x");
        let case = |name, source, former, current, is_due: bool| TriggerCase {
            name,
            source,
            former,
            current,
            keys: is_due.then(all_rules).into_iter().collect(),
        };
        let (rules, clusters) = (HubSource::CellRules, HubSource::Clusters);
        let policies = HubSource::OverridePolicies;
        let cases = [
            case("rule", rules, Some(&old), Some(&new), true),
            case("deleted rule", rules, Some(&old), None, true),
            case(
                "heartbeat of a cell",
                clusters,
                Some(&old),
                Some(&new),
                false,
            ),
            case(
                "labels of a cell",
                clusters,
                Some(&new),
                Some(&relabelled),
                true,
            ),
            case("new cell", clusters, None, Some(&new), true),
            case("removed cell", clusters, Some(&new), None, true),
            case("our policy", policies, Some(&policy), None, true),
            case("another policy", policies, None, Some(&new), false),
            case("copy", HubSource::Deployments, None, Some(&new), false),
        ];
        assert_cases(ON_HUB, &cases, &());
        for row in ON_HUB {
            assert_eq!((row.keys)(NO_OBJECT, &()), [all_rules()], "{}", row.reason);
        }
    }
}
