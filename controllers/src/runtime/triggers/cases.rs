//! Checks the rows of a controller against a table of cases.

use std::collections::HashSet;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use multicluster::cache::Change;
use multicluster::queue::Key;

use super::Trigger;

/// A change at a source, and all keys that the change must add to the queue.
pub(crate) struct TriggerCase<'a, S, K> {
    pub(crate) name: &'static str,
    pub(crate) source: S,
    pub(crate) former: Option<&'a ObjectMeta>,
    pub(crate) current: Option<&'a ObjectMeta>,
    pub(crate) keys: Vec<K>,
}

/// Asserts that the rows return exactly the keys of each case. Asserts also that the removal of any row breaks a case.
///
/// # Panics
///
/// When the rows return other keys for a case, or when no case needs a row.
pub(crate) fn assert_cases<S, L, K>(
    rows: &[Trigger<S, L, K>],
    cases: &[TriggerCase<'_, S, K>],
    lookups: &L,
) where
    S: Copy + Debug + PartialEq,
    L: ?Sized,
    K: Key,
{
    let keys = |case: &TriggerCase<'_, S, K>, removed: Option<usize>| -> HashSet<K> {
        let change = Change {
            former: case.former,
            current: case.current,
        };
        let rows = rows.iter().enumerate();
        let rows = rows.filter(|(at, row)| row.source == case.source && Some(*at) != removed);
        rows.flat_map(|(_, row)| (row.keys)(change, lookups))
            .collect()
    };
    let expected = |case: &TriggerCase<'_, S, K>| case.keys.iter().cloned().collect::<HashSet<K>>();
    for case in cases {
        assert_eq!(keys(case, None), expected(case), "{}", case.name);
    }
    for (at, row) in rows.iter().enumerate() {
        let breaks = cases
            .iter()
            .any(|case| keys(case, Some(at)) != expected(case));
        assert!(
            breaks,
            "no case needs the row {:?}: {}",
            row.source, row.reason
        );
    }
}
