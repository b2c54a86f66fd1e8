//! The cells that the message of `CellsReporting` names.

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

/// The cells that the message of `CellsReporting` names. The message can be cut, so it may leave cells out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NamedCells<'m> {
    /// The names. A lower hub stands for all its cells.
    pub names: Vec<&'m str>,
    /// Whether the message has space for all cells.
    pub all: bool,
}

impl<'m> NamedCells<'m> {
    /// Reads the message that the fold has written on a hub.
    ///
    /// The part of a lower hub is its own message after its name, and has several parts itself: in `mid: a1: no status
    /// reported; a2: no status reported`, `a2` is a cell below `mid`. The parts of a hub are sorted by name. So a part
    /// after that of a lower hub is about a cell of that lower hub, and perhaps also about a cell of the hub itself if its
    /// name is the greater one.
    pub fn of(message: &'m str) -> Self {
        let mut named = Self {
            names: Vec::new(),
            all: true,
        };
        let mut lower_hub = None;
        for part in message.split(SEPARATOR) {
            named.all &= !(part.starts_with("and ") && part.ends_with(" more"));
            let Some((name, text)) = part.split_once(COLON) else {
                continue;
            };
            if lower_hub.is_some_and(|lower_hub| name < lower_hub) {
                continue;
            }
            named.names.push(name);
            if is_of_lower_hub(text) {
                // A later one can be below this one.
                lower_hub.get_or_insert(name);
            }
        }
        named
    }
}

/// Returns whether this text, after a name, is the beginning of the message of a lower hub.
fn is_of_lower_hub(text: &str) -> bool {
    let below = text.split_once(COLON).map(|(_, text)| text);
    !is_of_cell(text) && below.is_some_and(|text| is_of_cell(text) || is_of_lower_hub(text))
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

    #[test]
    fn a_part_after_that_of_a_lower_hub_names_one_of_its_cells() {
        for (message, names) in [
            ("", &[][..]),
            ("a1: not applied yet; a2: no status reported", &["a1", "a2"]),
            ("a0: x; mid: a1: not applied: a2: x", &["a0", "mid"]),
            ("mid: a1: not applied yet; a2: no status reported", &["mid"]),
            (
                "mid: a1: unreachable since 2026-11-21T09:30:00Z; mid: not applied yet",
                &["mid", "mid"],
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
                &["mid", "z", "n"],
            ),
            // An error can contain each text.
            (
                "a1: not applied: x: y; z: w; a2: not applied yet",
                &["a1", "z", "a2"],
            ),
        ] {
            let all = true;
            let names = names.to_vec();
            assert_eq!(NamedCells::of(message), NamedCells { names, all });
        }
    }

    #[test]
    fn a_message_without_space_for_all_cells_says_so() {
        let named = NamedCells::of("a0: no status reported; and 7 more");
        assert_eq!((named.names, named.all), (vec!["a0"], false));
    }
}
