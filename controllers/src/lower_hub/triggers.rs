//! The triggers of the controller of a lower hub.

use crate::runtime::keys::ObjectKey;
use crate::runtime::triggers::{LowerHubSource, Trigger};

/// Returns the only key: all cells are reported together.
pub(crate) fn all_cells() -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: "cells".to_owned(),
    }
}

pub(crate) const ON_LOWER_HUB: &[Trigger<LowerHubSource, (), ObjectKey>] = &[
    Trigger {
        source: LowerHubSource::Clusters,
        reason: "a cell joined or left",
        keys: |change, ()| {
            let is_due = change.former.is_none() || change.current.is_none();
            is_due.then(all_cells).into_iter().collect()
        },
    },
    Trigger {
        source: LowerHubSource::Reachability,
        reason: "a cell became reachable or unreachable",
        keys: |_, ()| vec![all_cells()],
    },
    Trigger {
        source: LowerHubSource::LowerHubs,
        reason: "a cell below a further lower hub changed",
        keys: |_, ()| vec![all_cells()],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::triggers::cases::{TriggerCase, assert_cases};
    use crate::runtime::triggers::fakes::named;

    #[test]
    fn what_changes_the_list_of_cells_wakes_the_controller() {
        let cell = named("", "a1");
        let case = |name, source, former, current, is_due: bool| TriggerCase {
            name,
            source,
            former,
            current,
            keys: is_due.then(all_cells).into_iter().collect(),
        };
        let it = Some(&cell);
        let cases = [
            case("joined", LowerHubSource::Clusters, None, it, true),
            case("left", LowerHubSource::Clusters, it, None, true),
            case("heartbeat", LowerHubSource::Clusters, it, it, false),
            case("state", LowerHubSource::Reachability, it, it, true),
            case("below", LowerHubSource::LowerHubs, it, it, true),
        ];
        assert_cases(ON_LOWER_HUB, &cases, &());
    }
}
