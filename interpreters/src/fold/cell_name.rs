//! The names under which the fold stores cells. A name is in the request, so it can be anything.

use std::borrow::Cow;

use api::cells_below::name_above;
use api::identity::CLUSTER_SEPARATOR;

/// Stands for a name that no cell can have. A Cluster can have this name.
const UNNAMED: &str = "unnamed";
/// Longest name of a Cluster, in bytes. Karmada allows 48. Messages repeat the name for each condition.
const NAME_MAX: usize = 63;
/// Longest name of a cell on its lower hub, in bytes. With several levels it has several labels.
const NAME_BELOW_MAX: usize = 253;

/// Returns the name under which the fold stores a Cluster. Karmada allows no separator in it. With one, each of many
/// items could stand for the same cells below a lower hub.
pub(super) fn kept_name<'a>(cluster: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    match cluster.into() {
        name if is_usable(&name, NAME_MAX) && !name.contains(CLUSTER_SEPARATOR) => name,
        _ => UNNAMED.into(),
    }
}

/// Returns the same as [`name_above`], but replaces a name that no cell can have.
pub fn checked_name_above(lower_hub: &str, cell: &str) -> String {
    let usable = usable_name_above(lower_hub, cell);
    usable.unwrap_or_else(|| name_above(lower_hub, UNNAMED))
}

/// Returns the same as [`name_above`], or `None` for a name that no cell can have.
pub fn usable_name_above(lower_hub: &str, cell: &str) -> Option<String> {
    is_usable(cell, NAME_BELOW_MAX).then(|| name_above(lower_hub, cell))
}

/// Returns whether a name is not empty, is not too long, and has only characters that need no escape in JSON.
fn is_usable(name: &str, max: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=max).contains(&name.len()) && name.bytes().all(is_plain)
}
