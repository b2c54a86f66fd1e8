//! Decides what a lower hub reports of its cells.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::identity::CLUSTER_SEPARATOR;
use api::lower_hub::{
    CELL_BELOW_MESSAGE_MAX, CELL_BELOW_NAME_MAX, CELLS_BELOW_MAX, CellBelow, LowerHub,
    LowerHubStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::hub::clusters::CellState;

/// Most bytes of the list with its messages. The rest of the 1.5 MB that an etcd stores is for lists that are longer
/// without any message: at most 1.2 MB.
const LIST_MAX: usize = 1_000_000;
/// Bytes of an empty message in the list.
const EMPTY_MESSAGE: usize = r#""message":"","#.len();

/// What the lower hub knows of its cells.
pub(super) struct Observed {
    /// The states of its Clusters.
    pub(super) clusters: BTreeMap<String, CellState>,
    /// The LowerHubs of those Clusters that are hubs themselves.
    pub(super) lower_hubs: BTreeMap<String, Arc<LowerHub>>,
}

/// Returns the wanted status of the LowerHub on the upper hub.
pub(super) fn status(observed: &Observed) -> LowerHubStatus {
    let (mut cells, mut unlisted) = (Vec::new(), 0_usize);
    for (cluster, state) in &observed.clusters {
        let below = observed.lower_hubs.get(cluster);
        let below = below.and_then(|lower_hub| lower_hub.status.as_ref());
        match below.filter(|status| !status.cells.is_empty()) {
            Some(status) => {
                let all = usize::try_from(status.cell_count).unwrap_or_default();
                unlisted = unlisted.saturating_add(all.saturating_sub(status.cells.len()));
                cells.extend(
                    status
                        .cells
                        .iter()
                        .map(|it| below_cluster(cluster, state, it)),
                );
            }
            // The cells below a hub that does not report them have the state of its Cluster.
            None => cells.push(cell(cluster.clone(), state)),
        }
    }
    let mut cells: Vec<_> = cells.into_iter().flatten().collect();
    cells.sort_by(|one, other| one.name.cmp(&other.name));
    let count = cells.len().saturating_add(unlisted);
    shorten(&mut cells);
    shorten_messages(&mut cells);
    let not_ready = cells.iter().filter(|cell| !cell.ready).count();
    let as_number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    LowerHubStatus {
        cell_count: as_number(count),
        cells,
        not_ready: as_number(not_ready),
    }
}

/// Returns a cell of the list. Returns `None` if its Cluster was deleted a moment ago, or if no process can have its
/// name.
fn cell(name: String, state: &CellState) -> Option<CellBelow> {
    let max = usize::try_from(CELL_BELOW_NAME_MAX).unwrap_or(usize::MAX);
    if name.chars().count() > max {
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
    let name = format!("{cluster}{CLUSTER_SEPARATOR}{}", below.name);
    let own = cell(name.clone(), state)?;
    match own.ready {
        true => Some(CellBelow {
            name,
            ..below.clone()
        }),
        false => Some(own),
    }
}

/// Removes cells if there are too many for the list. Those that are not ready stay.
fn shorten(cells: &mut Vec<CellBelow>) {
    let max = usize::try_from(CELLS_BELOW_MAX).unwrap_or(usize::MAX);
    if cells.len() <= max {
        return;
    }
    // The sort is stable, so the cells stay sorted by name.
    cells.sort_by_key(|cell| cell.ready);
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
