//! The cells that the message of `CellsReporting` names.

use std::collections::BTreeSet;
use std::iter;

use api::cells_below::with_lower_hubs;
use api::condition::MESSAGE_MAX;

use super::cell_name::usable_name_above;
use super::join::truncated;

/// Text between the parts of two cells in the message.
pub(super) const SEPARATOR: &str = "; ";
/// Text between the name of a cell and what the message says of it.
pub(super) const COLON: &str = ": ";
/// What the message says of a cell that Karmada has not applied the object in. Karmada's error can follow.
pub(super) const NOT_APPLIED: &str = "not applied";
/// What the message says of a cell without a status.
pub(super) const NOT_REPORTED: &str = "no status reported";
/// What the message says of a cell that is not reachable. The time follows.
pub(super) const UNREACHABLE: &str = "unreachable since ";

/// The cells below a lower hub that the message of its `CellsReporting` names. The message can be cut, so it may leave
/// cells out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamedCells {
    /// The names that the cells have above the lower hub. A lower hub below stands for all its cells.
    pub names: BTreeSet<String>,
    /// Those of them that have not reported, or have such a cell below.
    pub unreported: BTreeSet<String>,
    /// Whether the message has space for all cells.
    pub all: bool,
}

impl NamedCells {
    /// Reads the message that the fold has written on a lower hub. A cell can claim to be one, so this reads no more than
    /// a message can have, and leaves out names that no cell can have.
    ///
    /// The part of a lower hub is its own message after its name, and has several parts itself: in `mid: a1: no status
    /// reported; a2: no status reported`, `a2` is a cell below `mid`. The parts of a hub are sorted by name. So a part
    /// after that of a lower hub is about a cell of that lower hub, and perhaps also about a cell of the hub itself if its
    /// name is the greater one.
    pub fn of(lower_hub: &str, message: &str) -> Self {
        let allowed = truncated(message.into(), MESSAGE_MAX);
        let mut named = Self {
            all: allowed.len() == message.len(),
            ..Self::default()
        };
        let mut of_lower_hub = None;
        for part in allowed.split(SEPARATOR) {
            named.all &= !(part.starts_with("and ") && part.ends_with(" more"));
            let Some((name, text)) = part.split_once(COLON) else {
                continue;
            };
            let hub_before = of_lower_hub.filter(|hub| name < *hub);
            let Some(above) = usable_name_above(lower_hub, hub_before.unwrap_or(name)) else {
                continue;
            };
            let (is_below, text) = said(text);
            if text == Some(NOT_REPORTED) {
                // It can be a cell below the lower hub before it.
                let below = of_lower_hub.and_then(|hub| usable_name_above(lower_hub, hub));
                named.unreported.extend(below);
                named.unreported.insert(above.clone());
            }
            named.names.insert(above);
            if hub_before.is_none() && is_below {
                // A later one can be below this one.
                of_lower_hub.get_or_insert(name);
            }
        }
        named
    }

    /// Returns whether the message is about this cell, by its name above the lower hub. A message without space for all
    /// cells can be about each.
    pub fn concerns(&self, cell: &str) -> bool {
        !self.all || with_lower_hubs(cell).any(|name| self.names.contains(name))
    }
}

/// Returns whether this text, after a name, is the beginning of the message of a lower hub, and what it says of the cell.
fn said(text: &str) -> (bool, Option<&str>) {
    let mut below = iter::successors(Some(text), |text| Some(text.split_once(COLON)?.1));
    let said = below.find(|text| is_of_cell(text));
    (said.is_some_and(|said| said != text), said)
}

/// Returns whether the fold writes this text about a cell of the hub itself.
fn is_of_cell(text: &str) -> bool {
    [NOT_APPLIED, NOT_REPORTED, UNREACHABLE]
        .iter()
        .any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names below the lower hub `dfw`.
    fn names(message: &str) -> Vec<String> {
        let named = NamedCells::of("dfw", message);
        let below = |name: String| name.strip_prefix("dfw.").unwrap().to_owned();
        named.names.into_iter().map(below).collect()
    }

    #[test]
    fn a_part_after_that_of_a_lower_hub_names_one_of_its_cells() {
        for (message, expected) in [
            ("", &[][..]),
            ("a1: not applied yet; a2: no status reported", &["a1", "a2"]),
            ("a0: x; mid: a1: not applied: a2: x", &["a0", "mid"]),
            ("mid: a1: not applied yet; a2: no status reported", &["mid"]),
            (
                "mid: a1: unreachable since 2026-11-21T09:30:00Z; mid: not applied yet",
                &["mid"],
            ),
            (
                "mid: low: a1: not applied: x; b: not applied yet; low2: no status reported",
                &["mid"],
            ),
            // It can be a cell of `mid` or of the hub.
            (
                "mid: a1: not applied yet; z: no status reported",
                &["mid", "z"],
            ),
            (
                "mid: a1: not applied yet; z: b: not applied yet; n: no status reported",
                &["mid", "n", "z"],
            ),
            // An error can contain each text.
            (
                "a1: not applied: x: y; z: w; a2: not applied yet",
                &["a1", "a2", "z"],
            ),
        ] {
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(names(message), expected, "{message}");
            assert!(NamedCells::of("dfw", message).all, "{message}");
        }
    }

    #[test]
    fn cells_that_have_not_reported_are_known_beside_others() {
        for (message, expected) in [
            ("a1: not applied: no status reported", &[][..]),
            ("a1: not applied yet; a2: no status reported", &["dfw.a2"]),
            (
                "mid: a1: not applied yet; a2: no status reported",
                &["dfw.mid"],
            ),
            (
                "mid: a1: no status reported; b: not applied yet",
                &["dfw.mid"],
            ),
            // It can be a cell of `mid` or of the hub.
            (
                "mid: a1: not applied yet; z: no status reported",
                &["dfw.mid", "dfw.z"],
            ),
            ("mid: a1: not applied yet; b: not applied yet", &[]),
            ("a1: no status reported later", &[]),
        ] {
            let unreported = NamedCells::of("dfw", message).unreported;
            assert!(unreported.iter().eq(expected), "{message}: {unreported:?}");
        }
    }

    #[test]
    fn a_message_without_space_for_all_cells_says_so() {
        let message = "a0: no status reported; and 7 more";
        assert_eq!(names(message), ["a0"]);
        let of = |message| NamedCells::of("dfw", message);
        assert!(of(message).concerns("dfw.a1"));
        let (all, _) = message.split_once(SEPARATOR).unwrap();
        assert!(of(all).concerns("dfw.a0.b") && !of(all).concerns("dfw.a1"));
    }

    /// A cell can claim to be a lower hub.
    #[test]
    fn no_more_is_read_than_a_hub_can_write() {
        let part = |name: &str| format!("{name}: {NOT_REPORTED}");
        let long = ".".repeat(254);
        for unusable in [long.as_str(), "", "two words", "a\"b"] {
            let message = format!("{}; {}", part(unusable), part("a1"));
            assert_eq!(names(&message), ["a1"], "{unusable}");
        }
        let parts = |count: usize| (0..count).map(|it| part(&format!("{it:07}")));
        let many = parts(20_000).collect::<Vec<_>>().join(SEPARATOR);
        let named = NamedCells::of("dfw", &many);
        let size = part("0000000").len() + SEPARATOR.len();
        assert_eq!(named.names.len(), MESSAGE_MAX.div_ceil(size));
        assert!(!named.all);
        let nested = format!("{}{}", "x: ".repeat(1_000_000), part("a1"));
        assert_eq!(names(&nested), ["x"]);
    }
}
