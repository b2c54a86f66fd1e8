//! Finds copies on the hub whose Instances are gone. Such copies appear when the hub's etcd is restored from an older
//! snapshot.

use api::{CellName, labels};
use kube::ResourceExt;

use crate::objects::{is_terminating, label};

/// Returns whether this cell may delete a copy whose Instance it does not have. A copy without a cell can be that of
/// another cell.
pub(crate) fn is_of(cell: &CellName, copy: &impl ResourceExt) -> bool {
    !is_terminating(copy) && label(copy, labels::SOURCE_CLUSTER) == Some(cell.as_str())
}

/// Returns the name of the Instance with the next ordinal.
pub(crate) fn next(name: &str) -> Option<String> {
    let (deployment, ordinal) = name.rsplit_once('-')?;
    let ordinal: u32 = ordinal.parse().ok()?;
    Some(format!("{deployment}-{}", ordinal.checked_add(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{instance, terminating};

    #[test]
    fn only_a_live_copy_of_this_cell_may_be_deleted() {
        let cell = CellName::new("dfw1").unwrap();
        let copy = |of: Option<&str>| {
            let mut copy = instance("ns-1", "web-0");
            let label = of.map(|of| (labels::SOURCE_CLUSTER.to_owned(), of.to_owned()));
            copy.metadata.labels = Some(label.into_iter().collect());
            copy
        };
        assert!(is_of(&cell, &copy(Some("dfw1"))));
        for other in [copy(Some("ord1")), copy(Some("")), copy(None)] {
            assert!(!is_of(&cell, &other));
        }
        assert!(!is_of(&cell, &terminating(copy(Some("dfw1")))));
    }

    #[test]
    fn ordinals_follow_each_other() {
        assert_eq!(next("web-us-dfw-9").as_deref(), Some("web-us-dfw-10"));
        for name in ["web", "web-us", "web-", "web-4294967295"] {
            assert_eq!(next(name), None, "{name}");
        }
    }
}
