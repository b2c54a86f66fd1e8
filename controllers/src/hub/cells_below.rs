//! The reachability of the cells below lower hubs, as the LowerHubs of the hub report it
//! (docs/concepts/freshness.md#cells-below-lower-hubs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::cells_below::{cells_below, name_above, with_lower_hubs};
use api::lower_hub::{CellBelow, LowerHub, LowerHubStatus, SilentLowerHub};
use multicluster::Cache;

use super::clusters::CellState;

/// The states of the cells below the lower hubs of a hub. Without a report of the lower hub, its cells are unknown.
pub(crate) struct CellsBelow {
    lower_hubs: Cache<LowerHub>,
    /// Each LowerHub with a status at its last event.
    observed: Mutex<BTreeMap<String, Arc<LowerHub>>>,
}

impl CellsBelow {
    pub(crate) fn new(lower_hubs: Cache<LowerHub>) -> Self {
        Self {
            lower_hubs,
            observed: Mutex::default(),
        }
    }

    /// Returns the state of a cell. The arguments are the Cluster of the lower hub, and the name of the cell there.
    pub(crate) fn state(&self, lower_hub: &str, cell: &str) -> CellState {
        if self.lower_hubs.refusal().is_some() {
            return CellState::Reachable;
        }
        let lower_hub = self.reported(lower_hub);
        let status = status_of(lower_hub.as_ref());
        status.map_or(CellState::Reachable, |status| state(status, cell))
    }

    /// Returns whether the lower hub says what the state of a cell is. A list that has no space for all cells says nothing
    /// of the others, and that of a silent process says nothing of any cell below it.
    pub(crate) fn knows(&self, lower_hub: &str, cell: &str) -> bool {
        if self.lower_hubs.refusal().is_some() {
            return false;
        }
        let lower_hub = self.reported(lower_hub);
        let status = status_of(lower_hub.as_ref());
        let status = status.filter(|status| !status.is_unknown(cell));
        status.is_some_and(|status| match listed(status, cell) {
            // A ready Cluster that leads to the cell says nothing of it.
            Some(listed) => listed.name == cell || !listed.ready,
            None => is_complete(status),
        })
    }

    /// Returns the lower hubs with silent processes: this one, and those below it, with their names on this hub. The lists
    /// of their cells may be old.
    pub(crate) fn silent(&self, lower_hub: &str) -> Vec<SilentLowerHub> {
        if self.lower_hubs.refusal().is_some() {
            return Vec::new();
        }
        let reported = self.reported(lower_hub);
        let status = status_of(reported.as_ref());
        status.map_or_else(Vec::new, |status| status.silent_from(lower_hub))
    }

    /// Observes a LowerHub. Returns the cells whose state differs from the last observed state, with their names on
    /// this hub. The name of the lower hub stands for all its cells.
    pub(crate) fn changed(&self, lower_hub: &str) -> Vec<String> {
        let current = self.reported(lower_hub);
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let former = match current.clone() {
            Some(current) => observed.insert(lower_hub.to_owned(), current),
            None => observed.remove(lower_hub),
        };
        drop(observed);
        let changed = match (status_of(former.as_ref()), status_of(current.as_ref())) {
            (None, None) => Vec::new(),
            (Some(former), Some(current))
                if is_complete(former) == is_complete(current)
                    && former.silent_since() == current.silent_since() =>
            {
                changed(former, current)
            }
            // Cells that no list names have another state too. Of a silent process, no state is known.
            _ => return vec![lower_hub.to_owned()],
        };
        let named = changed.into_iter();
        named.map(|cell| name_above(lower_hub, &cell)).collect()
    }

    /// Returns the LowerHub if it has a status and can be decoded.
    fn reported(&self, lower_hub: &str) -> Option<Arc<LowerHub>> {
        let lower_hub = self.lower_hubs.get("", lower_hub).ok().flatten();
        lower_hub.filter(|it| it.status.is_some())
    }
}

fn status_of(lower_hub: Option<&Arc<LowerHub>>) -> Option<&LowerHubStatus> {
    lower_hub?.status.as_ref()
}

/// Returns the cells whose states differ, and the lower hubs below whose processes became silent or are so no more.
fn changed(former: &LowerHubStatus, current: &LowerHubStatus) -> Vec<String> {
    if former == current {
        return Vec::new();
    }
    let names = [former, current].into_iter().flat_map(|status| {
        let silent = status.silent_lower_hubs.iter();
        let cells = status.cells.iter().map(|cell| cell.name.as_str());
        cells.chain(silent.map(|it| it.name.as_str()))
    });
    let names: BTreeSet<_> = names.collect();
    let is_same = |name: &str| {
        state(former, name) == state(current, name)
            && former.silence_of(name) == current.silence_of(name)
    };
    let changed = names.into_iter().filter(|name| !is_same(name));
    changed.map(str::to_owned).collect()
}

/// Returns whether the list has all cells: it has space for them, and the process that writes it is not silent.
fn is_complete(status: &LowerHubStatus) -> bool {
    let has_space =
        usize::try_from(status.cell_count).is_ok_and(|count| count <= status.cells.len());
    has_space && status.silent_since().is_none()
}

/// Returns the state of a cell from the status of the lower hub. The list is sorted by name. A Cluster in the list that
/// leads to the cell stands for it: the lower hub does not know the cells below this Cluster.
fn state(status: &LowerHubStatus, cell: &str) -> CellState {
    if let Some(listed) = listed(status, cell) {
        return state_of(listed);
    }
    // The name of a lower hub is not in the list, but the cells below it are.
    let has_cells = !cells_below(&status.cells, cell, |it| &it.name).is_empty();
    // A cell below a lower hub with a silent process may be new.
    match has_cells || !is_complete(status) || status.is_unknown(cell) {
        true => CellState::Reachable,
        false => CellState::without_cluster(),
    }
}

/// Returns the entry of a cell, or of a Cluster that leads to it.
fn listed<'a>(status: &'a LowerHubStatus, cell: &str) -> Option<&'a CellBelow> {
    with_lower_hubs(cell).find_map(|name| {
        let at = status
            .cells
            .binary_search_by(|it| it.name.as_str().cmp(name));
        status.cells.get(at.ok()?)
    })
}

fn state_of(cell: &CellBelow) -> CellState {
    match cell.ready {
        true => CellState::Reachable,
        false => CellState::Unreachable {
            since: cell.since.as_ref().map(|since| since.0),
            message: match cell.message.is_empty() {
                true => "its Cluster is not Ready".to_owned(),
                false => cell.message.clone(),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use api::condition::{Condition, ConditionStatus};
    use api::lower_hub::REPORTING;
    use multicluster::Metrics;
    use multicluster::cache::Reflector;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;

    const SINCE: &str = "2026-11-21T09:30:00Z";

    /// A status with these cells. A `!` marks those that are not ready.
    fn status(cells: &[&str]) -> LowerHubStatus {
        let cell = |name: &&str| match name.strip_prefix('!') {
            Some(name) => json!({"name": name, "ready": false, "since": SINCE, "message": "m"}),
            None => json!({"name": name, "ready": true}),
        };
        let cells: Vec<_> = cells.iter().map(cell).collect();
        let status = json!({"cellCount": cells.len(), "notReady": 0, "cells": cells});
        serde_json::from_value(status).unwrap()
    }

    fn unreachable() -> CellState {
        CellState::Unreachable {
            since: Some(SINCE.parse().unwrap()),
            message: "m".to_owned(),
        }
    }

    #[test]
    fn the_list_says_which_cells_are_reachable() {
        let (absent, reachable) = (CellState::without_cluster(), CellState::Reachable);
        let listed = status(&["!a1", "a2", "b-1", "b.x", "!b.y", "!c"]);
        for (cell, expected) in [
            ("a1", unreachable()),
            ("a2", reachable.clone()),
            ("a3", absent.clone()),
            ("b", reachable.clone()),
            ("b.x", reachable.clone()),
            ("b.y", unreachable()),
            ("b.z", absent.clone()),
            ("c", unreachable()),
            ("c.x", unreachable()),
            ("c.x.y", unreachable()),
            ("a", absent.clone()),
        ] {
            assert_eq!(state(&listed, cell), expected, "{cell}");
        }
        assert_eq!(state(&status(&[]), "a1"), absent);
        let mut truncated = listed;
        truncated.cell_count = 7;
        assert_eq!(state(&truncated, "a3"), reachable);
        assert_eq!(state(&truncated, "a1"), unreachable());
        let silent = silent(&["!a1", "a2"]);
        assert_eq!(state(&silent, "a1"), unreachable(), "as last reported");
        assert_eq!(state(&silent, "a2"), reachable);
        assert_eq!(state(&silent, "a3"), reachable, "it may be new");
    }

    /// The list of a process that is silent since [`SINCE`].
    fn silent(cells: &[&str]) -> LowerHubStatus {
        let since = SINCE.parse().unwrap();
        let (is_false, reason) = (ConditionStatus::False, "ProcessSilent");
        let reporting = Condition::new(REPORTING, is_false, reason, "", since);
        LowerHubStatus {
            conditions: vec![reporting],
            ..status(cells)
        }
    }

    /// A status with these cells. The process of the lower hub `mid` below is silent.
    fn silent_below(cells: &[&str]) -> LowerHubStatus {
        let silent = json!([{"name": "mid", "since": SINCE}]);
        LowerHubStatus {
            silent_lower_hubs: serde_json::from_value(silent).unwrap(),
            ..status(cells)
        }
    }

    /// I-12: what a lower hub has reported before proves nothing.
    #[test]
    fn a_silent_process_knows_no_cell() {
        let reflector = Reflector::new("hub", &Metrics::default());
        let cells = CellsBelow::new(reflector.cache());
        let known = |version, status| {
            reflector
                .cache()
                .observe_write(lower_hub(version, Some(status)));
            let known = ["a1", "a3", "mid.x", "mid.z"].map(|cell| cells.knows("dfw", cell));
            let silent = cells.silent("dfw").into_iter().map(|it| it.name);
            (known, silent.collect::<Vec<_>>().join(" "))
        };
        let (listed, none) = (["a1", "mid.x"], String::new());
        assert_eq!(known(1, status(&listed)), ([true; 4], none.clone()));
        assert_eq!(known(2, silent(&listed)), ([false; 4], "dfw".to_owned()));
        let below = ([true, true, false, false], "dfw.mid".to_owned());
        assert_eq!(known(3, silent_below(&listed)), below);
        assert_eq!(known(4, status(&listed)), ([true; 4], none));
    }

    /// Cells that are listed have their last state. A cell that is not listed may be new.
    #[test]
    fn cells_below_a_lower_hub_with_a_silent_process_count_as_last_reported() {
        let (absent, reachable) = (CellState::without_cluster(), CellState::Reachable);
        let listed = silent_below(&["a1", "mid.x", "!mid.y"]);
        for (cell, expected) in [
            ("mid.x", &reachable),
            ("mid.y", &unreachable()),
            ("mid.z", &reachable),
            ("a2", &absent),
            ("mid-2.x", &absent),
        ] {
            assert_eq!(state(&listed, cell), *expected, "{cell}");
        }
    }

    fn lower_hub(version: u32, status: Option<LowerHubStatus>) -> LowerHub {
        let version = version.to_string();
        object(json!({
            "metadata": {"name": "dfw", "uid": "l", "resourceVersion": version}, "spec": {},
            "status": status.map_or(Value::Null, |status| json!(status)),
        }))
    }

    #[test]
    fn exactly_the_cells_whose_state_changed_are_noticed() {
        let reflector = Reflector::new("hub", &Metrics::default());
        let cells = CellsBelow::new(reflector.cache());
        let mut truncated = status(&["a1", "!a2"]);
        truncated.cell_count = 3;
        let mut silent_and_truncated = silent(&["a1", "!a2"]);
        silent_and_truncated.cell_count = 3;
        let steps: [(Option<LowerHubStatus>, &[&str]); 15] = [
            (None, &[]),
            (Some(status(&["a1", "a2"])), &["dfw"]),
            (Some(status(&["a1", "a2"])), &[]),
            (Some(status(&["a1", "!a2"])), &["dfw.a2"]),
            (Some(status(&["a1", "!a2", "a3"])), &["dfw.a3"]),
            (Some(status(&["a1", "!a2"])), &["dfw.a3"]),
            (Some(silent(&["a1", "!a2"])), &["dfw"]),
            (Some(silent(&["!a1", "!a2"])), &["dfw.a1"]),
            (Some(status(&["a1", "!a2"])), &["dfw"]),
            (Some(truncated), &["dfw"]),
            (Some(silent_and_truncated), &["dfw"]),
            (Some(status(&["a1"])), &["dfw"]),
            (Some(silent_below(&["!a1"])), &["dfw.a1", "dfw.mid"]),
            (Some(status(&["!a1"])), &["dfw.mid"]),
            (None, &["dfw"]),
        ];
        for (version, (status, expected)) in (1..).zip(steps) {
            reflector.cache().observe_write(lower_hub(version, status));
            assert_eq!(cells.changed("dfw"), expected, "step {version}");
        }
        assert_eq!(cells.changed("ord"), [""; 0]);
        assert_eq!(cells.state("dfw", "a2"), CellState::Reachable);
    }
}
