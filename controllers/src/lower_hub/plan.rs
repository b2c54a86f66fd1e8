//! Decides what a lower hub reports of its cells.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::cells_below::{cells_below, is_below, name_above};
use api::identity::CLUSTER_SEPARATOR;
use api::lower_hub::{
    CELL_BELOW_MESSAGE_MAX, CELL_BELOW_NAME_MAX, CELLS_BELOW_MAX, CellBelow, LowerHub,
    LowerHubStatus, SILENT_LOWER_HUBS_MAX, SilentLowerHub,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::hub::clusters::CellState;

/// Most bytes of the list with its messages. The rest of the 1.5 MB that an etcd stores is for lists that are longer
/// without any message: at most 1.2 MB.
const LIST_MAX: usize = 1_000_000;
/// Bytes of an empty message in the list.
const EMPTY_MESSAGE: usize = r#""message":"","#.len();

/// The facts that the lower hub knows of its cells.
pub(super) struct Observed {
    /// The states of its Clusters.
    pub(super) clusters: BTreeMap<String, CellState>,
    /// The LowerHubs of those Clusters that are hubs themselves.
    pub(super) lower_hubs: BTreeMap<String, Arc<LowerHub>>,
    /// The Clusters of which it is not known whether they are hubs: their LowerHubs cannot be read now.
    pub(super) unreadable: BTreeSet<String>,
}

/// Returns the wanted status of the LowerHub on the upper hub. `former` is its current status, whose conditions stay.
pub(super) fn status(observed: &Observed, former: Option<&LowerHubStatus>) -> LowerHubStatus {
    let as_count = |number: i32| usize::try_from(number).unwrap_or_default();
    let conditions = former.map(|former| former.conditions.clone());
    let (mut cells, mut unlisted, mut least) = (Vec::new(), 0_usize, 0);
    for (cluster, state) in &observed.clusters {
        let below = observed.lower_hubs.get(cluster);
        let below = below.and_then(|lower_hub| lower_hub.status.as_ref());
        if let Some(status) = below.filter(|status| status.is_reported()) {
            // The list of a silent process may lack cells. None of them can be reached.
            if *state != CellState::Reachable && !status.silent_from(cluster).is_empty() {
                cells.push(cell(cluster.clone(), state));
            }
            let all = as_count(status.cell_count);
            unlisted = unlisted.saturating_add(all.saturating_sub(status.cells.len()));
            let below = status.cells.iter();
            cells.extend(below.map(|it| below_cluster(cluster, state, it)));
            continue;
        }
        let former = former.filter(|_| observed.unreadable.contains(cluster));
        let before = cells.len();
        if let Some(former) = former {
            let kept = former_below(former, cluster);
            cells.extend(kept.map(|it| below_cluster(cluster, state, &it)));
        }
        match former {
            // A list that had no space for all cells stays one that has none.
            Some(former) if cells.len() > before => {
                least = as_count(former.cell_count);
                if *state != CellState::Reachable && may_lack_cells(former, cluster) {
                    cells.push(cell(cluster.clone(), state));
                }
            }
            // The cells below a hub that has never reported them have the state of its Cluster.
            _ => cells.push(cell(cluster.clone(), state)),
        }
    }
    let mut cells: Vec<_> = cells.into_iter().flatten().collect();
    cells.sort_by(|one, other| one.name.cmp(&other.name));
    let count = cells.len().saturating_add(unlisted).max(least);
    let not_ready = cells.iter().filter(|cell| !cell.ready).count();
    shorten(&mut cells);
    shorten_messages(&mut cells);
    let as_number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    LowerHubStatus {
        cell_count: as_number(count),
        cells,
        conditions: conditions.unwrap_or_default(),
        hub_uid: former.and_then(|former| former.hub_uid.clone()),
        not_ready: as_number(not_ready),
        silent_lower_hubs: silent_lower_hubs(observed, former),
    }
}

/// Returns the lower hubs below this one whose processes are silent. Below a Cluster that is not ready, the state of all
/// cells is known: the list has the Cluster itself.
fn silent_lower_hubs(observed: &Observed, former: Option<&LowerHubStatus>) -> Vec<SilentLowerHub> {
    let clusters = observed.clusters.iter();
    let reachable = clusters.filter(|(_, state)| **state == CellState::Reachable);
    let silent = reachable.flat_map(|(cluster, _)| {
        if let Some(former) = former.filter(|_| observed.unreadable.contains(cluster)) {
            return former_silent(former, cluster).cloned().collect();
        }
        let lower_hub = observed.lower_hubs.get(cluster);
        let status = lower_hub.and_then(|lower_hub| lower_hub.status.as_ref());
        status.map_or_else(Vec::new, |status| status.silent_from(cluster))
    });
    let mut silent: Vec<_> = silent.filter(|it| is_name(&it.name)).collect();
    silent.sort_by(|one, other| one.name.cmp(&other.name));
    silent.truncate(usize::try_from(SILENT_LOWER_HUBS_MAX).unwrap_or(usize::MAX));
    silent
}

/// Returns whether a process can have this name, or that of a cell below.
fn is_name(name: &str) -> bool {
    let max = usize::try_from(CELL_BELOW_NAME_MAX).unwrap_or(usize::MAX);
    name.chars().count() <= max
}

/// Returns a cell of the list. Returns `None` if its Cluster was deleted a moment ago, or if no process can have its
/// name.
fn cell(name: String, state: &CellState) -> Option<CellBelow> {
    if !is_name(&name) {
        return None;
    }
    match state {
        CellState::Reachable => Some(CellBelow {
            name,
            ready: true,
            ..CellBelow::default()
        }),
        CellState::Unreachable { since, message } => Some(CellBelow {
            name,
            ready: false,
            since: Some(Time((*since)?)),
            message: message.clone(),
        }),
    }
}

/// Returns a cell below a Cluster that is a hub. It is ready only if the Cluster is.
fn below_cluster(cluster: &str, state: &CellState, below: &CellBelow) -> Option<CellBelow> {
    let name = name_above(cluster, &below.name);
    let own = cell(name.clone(), state)?;
    match own.ready {
        true => Some(CellBelow {
            name,
            ..below.clone()
        }),
        false => Some(own),
    }
}

/// Returns the cells below a Cluster that were reported last, with their names there. The list is sorted by name.
fn former_below<'a>(
    former: &'a LowerHubStatus,
    cluster: &str,
) -> impl Iterator<Item = CellBelow> + use<'a> {
    let prefix = name_above(cluster, "");
    let cells = cells_below(&former.cells, cluster, |cell| &cell.name).iter();
    cells.filter_map(move |cell| {
        let name = cell.name.strip_prefix(&prefix)?.to_owned();
        Some(CellBelow {
            name,
            ..cell.clone()
        })
    })
}

/// Returns the lower hubs with silent processes that were reported last, from a Cluster on.
fn former_silent<'a>(
    former: &'a LowerHubStatus,
    cluster: &str,
) -> impl Iterator<Item = &'a SilentLowerHub> {
    let reported = former.silent_lower_hubs.iter();
    reported.filter(move |it| it.name == cluster || is_below(&it.name, cluster))
}

/// Returns whether the list of the cells below a Cluster may lack some, because the process that writes it, or one below,
/// was silent when they were reported last.
fn may_lack_cells(former: &LowerHubStatus, cluster: &str) -> bool {
    let has_cluster = former.cells.iter().any(|it| it.name == *cluster);
    has_cluster || former_silent(former, cluster).next().is_some()
}

/// Removes cells if there are too many for the list. Those of the own Clusters stay first, so that no further hub can
/// displace them, and then those that are not ready.
fn shorten(cells: &mut Vec<CellBelow>) {
    let max = usize::try_from(CELLS_BELOW_MAX).unwrap_or(usize::MAX);
    if cells.len() <= max {
        return;
    }
    // The sort is stable, so the cells stay sorted by name.
    cells.sort_by_key(|cell| (cell.name.contains(CLUSTER_SEPARATOR), cell.ready));
    cells.truncate(max);
    cells.sort_by(|one, other| one.name.cmp(&other.name));
}

/// Shortens the messages, so that all of them have the same space in the list.
fn shorten_messages(cells: &mut [CellBelow]) {
    let messages: Vec<_> = cells
        .iter_mut()
        .map(|cell| std::mem::take(&mut cell.message))
        .collect();
    let count = messages
        .iter()
        .filter(|message| !message.is_empty())
        .count();
    let fixed = serde_json::to_string(cells).map_or(LIST_MAX, |text| text.len());
    let space = LIST_MAX.saturating_sub(fixed).checked_div(count);
    let space = space.unwrap_or_default().saturating_sub(EMPTY_MESSAGE);
    let max = usize::try_from(CELL_BELOW_MESSAGE_MAX).unwrap_or(usize::MAX);
    for (cell, mut message) in cells.iter_mut().zip(messages) {
        message.truncate(beginning(&message, space.min(max)));
        cell.message = message;
    }
}

/// Returns the length of the longest beginning of a text that has at most this number of bytes in JSON.
fn beginning(text: &str, max: usize) -> usize {
    let mut bytes = 0;
    for (at, character) in text.char_indices() {
        bytes += match character {
            '"' | '\\' => 2,
            // An API server stores `\u003c`.
            '<' | '>' | '&' => 6,
            // At most `\u001f`.
            character if character.is_control() => 6,
            character => character.len_utf8(),
        };
        if bytes > max {
            return at;
        }
    }
    text.len()
}
