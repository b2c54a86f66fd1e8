//! The triggers of the sweeper.

use api::DEFAULT_NAMESPACE;

use super::record::recorded;
use crate::hub::upstream::project;
use crate::runtime::keys::LedgerKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), LedgerKey>] = &[
    Trigger {
        source: CellSource::Namespaces,
        reason: "claims may be left in a project that the record in the Namespace names from now on, or not any more",
        keys: |change, ()| {
            let [former, current] = [change.former, change.current].map(|version| {
                let version = version.filter(|it| it.name.as_deref() == Some(DEFAULT_NAMESPACE));
                version.map(recorded).unwrap_or_default()
            });
            let changed = former.symmetric_difference(&current);
            changed.cloned().map(LedgerKey).collect()
        },
    },
    Trigger {
        source: CellSource::Namespaces,
        reason: "a claim of an Instance in a Namespace that is gone may be watched in the project",
        keys: |change, ()| match change.current {
            Some(_) => Vec::new(),
            None => change
                .former
                .and_then(project)
                .map(LedgerKey)
                .into_iter()
                .collect(),
        },
    },
];

#[cfg(test)]
mod tests {
    use api::ProjectName;
    use api::annotations::LEFT_CLAIMS;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{acme, hub_namespace, metadata};

    #[test]
    fn a_record_wakes_the_sweeper() {
        let namespace = |name: &str, record: Option<&str>| {
            metadata(
                json!({"name": name, "annotations": {LEFT_CLAIMS: record.unwrap_or_default()}}),
            )
        };
        let recorded = namespace("default", Some(r#"["acme"]"#));
        let (without, other) = (
            namespace("default", None),
            namespace("ns-1", Some(r#"["acme"]"#)),
        );
        let both = namespace("default", Some(r#"["acme","other"]"#));
        let of_acme = hub_namespace("ns-1", Some(("acme", "default")));
        let own = || vec![LedgerKey(acme())];
        let other_project = || vec![LedgerKey(ProjectName::new("other").unwrap())];
        let case = |name, source, former, current, keys| TriggerCase {
            name,
            source,
            former,
            current,
            keys,
        };
        let source = CellSource::Namespaces;
        #[rustfmt::skip]
        let cases = [
            case("recorded", source, Some(&without), Some(&recorded), own()),
            case("removed", source, Some(&recorded), Some(&without), own()),
            case("another one recorded", source, Some(&recorded), Some(&both), other_project()),
            case("another one removed", source, Some(&both), Some(&recorded), other_project()),
            case("unchanged", source, Some(&recorded), Some(&recorded), vec![]),
            case("listed", source, None, Some(&recorded), own()),
            case("without a record", source, None, Some(&without), vec![]),
            case("another Namespace", source, None, Some(&other), vec![]),
            case("gone", source, Some(&of_acme), None, own()),
            case("changed", source, Some(&of_acme), Some(&of_acme), vec![]),
            case("gone without a project", source, Some(&other), None, vec![]),
            case("another kind", CellSource::Instances, None, Some(&recorded), vec![]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
