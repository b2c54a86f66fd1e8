//! The reachability of the cells below lower hubs, as the LowerHubs of the hub report it
//! (docs/concepts/freshness.md#cells-below-lower-hubs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::cells_below::{cells_below, name_above, with_lower_hubs};
use api::condition;
use api::lower_hub::{CellBelow, LowerHub, LowerHubStatus, REPORTING};
use jiff::Timestamp;
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
    /// of the others, and one of a silent process says nothing at all.
    pub(crate) fn knows(&self, lower_hub: &str, cell: &str) -> bool {
        if self.lower_hubs.refusal().is_some() {
            return false;
        }
        let lower_hub = self.reported(lower_hub);
        let status = status_of(lower_hub.as_ref());
        let status = status.filter(|status| silent_since(status).is_none());
        status.is_some_and(|status| match listed(status, cell) {
            // A ready Cluster that leads to the cell says nothing of it.
            Some(listed) => listed.name == cell || !listed.ready,
            None => is_complete(status),
        })
    }

    /// Returns since when the process of the lower hub is silent. Then the list of its cells may be old.
    pub(crate) fn silent_since(&self, lower_hub: &str) -> Option<Timestamp> {
        if self.lower_hubs.refusal().is_some() {
            return None;
        }
        let lower_hub = self.reported(lower_hub);
        status_of(lower_hub.as_ref()).and_then(silent_since)
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
                    && silent_since(former) == silent_since(current) =>
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

/// Returns the cells whose states differ.
fn changed(former: &LowerHubStatus, current: &LowerHubStatus) -> Vec<String> {
    if former == current {
        return Vec::new();
    }
    let cells = former.cells.iter().chain(&current.cells);
    let cells: BTreeSet<_> = cells.map(|cell| cell.name.as_str()).collect();
    let changed = cells.into_iter();
    changed
        .filter(|cell| state(former, cell) != state(current, cell))
        .map(str::to_owned)
        .collect()
}

/// Returns whether the list has all cells: it has space for them, and the process that writes it is not silent.
fn is_complete(status: &LowerHubStatus) -> bool {
    let has_space =
        usize::try_from(status.cell_count).is_ok_and(|count| count <= status.cells.len());
    has_space && silent_since(status).is_none()
}

/// Returns since when the process that writes the list is silent.
fn silent_since(status: &LowerHubStatus) -> Option<Timestamp> {
    let reporting = condition::find(&status.conditions, REPORTING)?;
    reporting
        .is_false()
        .then_some(reporting.last_transition_time.0)
}

/// Returns the state of a cell from the status of the lower hub. The list is sorted by name. A Cluster in the list that
/// leads to the cell stands for it: the lower hub does not know the cells below this Cluster.
fn state(status: &LowerHubStatus, cell: &str) -> CellState {
    if let Some(listed) = listed(status, cell) {
        return state_of(listed);
    }
    // The name of a lower hub is not in the list, but the cells below it are.
    let has_cells = !cells_below(&status.cells, cell, |it| &it.name).is_empty();
    match has_cells || !is_complete(status) {
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
        let (is_false, reason) = (condition::ConditionStatus::False, "ProcessSilent");
        let reporting = condition::Condition::new(REPORTING, is_false, reason, "", since);
        LowerHubStatus {
            conditions: vec![reporting],
            ..status(cells)
        }
    }

    #[test]
    fn a_silent_process_knows_no_cell() {
        let reflector = Reflector::new("hub", &Metrics::default());
        let cells = CellsBelow::new(reflector.cache());
        let known = |version, status| {
            reflector
                .cache()
                .observe_write(lower_hub(version, Some(status)));
            let known = ["a1", "a3"].map(|cell| cells.knows("dfw", cell));
            (known, cells.silent_since("dfw").is_some())
        };
        assert_eq!(known(1, status(&["a1"])), ([true; 2], false));
        assert_eq!(known(2, silent(&["a1"])), ([false; 2], true));
        assert_eq!(known(3, status(&["a1"])), ([true; 2], false));
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
        let steps: [(Option<LowerHubStatus>, &[&str]); 13] = [
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
