//! The triggers of the sweeper.

use api::DEFAULT_NAMESPACE;

use super::record::recorded;
use crate::runtime::keys::LedgerKey;
use crate::runtime::triggers::{CellSource, Trigger};

pub(crate) const ON_CELL: &[Trigger<CellSource, (), LedgerKey>] = &[Trigger {
    source: CellSource::Namespaces,
    reason: "the Namespace has the record of the projects in which claims may be left",
    keys: |change, ()| {
        let versions = change.versions();
        let records = versions.filter(|it| it.name.as_deref() == Some(DEFAULT_NAMESPACE));
        records.flat_map(recorded).map(LedgerKey).collect()
    },
}];

#[cfg(test)]
mod tests {
    use api::annotations::LEFT_CLAIMS;
    use serde_json::json;

    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::{acme, metadata};

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
        let own = || vec![LedgerKey(acme())];
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
            case("without a record", source, None, Some(&without), vec![]),
            case("another Namespace", source, None, Some(&other), vec![]),
            case("another kind", CellSource::Instances, None, Some(&recorded), vec![]),
        ];
        assert_cases(ON_CELL, &cases, &());
    }
}
