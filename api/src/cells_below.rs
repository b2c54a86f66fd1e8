//! The names of cells below lower hubs: `dfw.a1` is the cell `a1` below the Cluster `dfw`. See docs/concepts/status.md.

use std::iter;

use crate::identity::CLUSTER_SEPARATOR;

/// Returns the name that a cell of a lower hub has above it.
pub fn name_above(lower_hub: &str, cell: &str) -> String {
    format!("{lower_hub}{CLUSTER_SEPARATOR}{cell}")
}

/// Returns whether this is the name of a cell below the lower hub.
pub fn is_below(cell: &str, lower_hub: &str) -> bool {
    let rest = cell.strip_prefix(lower_hub);
    rest.is_some_and(|rest| rest.starts_with(CLUSTER_SEPARATOR))
}

/// Returns the cell and the lower hubs above it, the nearest first.
pub fn with_lower_hubs(cell: &str) -> impl Iterator<Item = &str> {
    iter::successors(Some(cell), |name| {
        let (lower_hub, _) = name.rsplit_once(CLUSTER_SEPARATOR)?;
        Some(lower_hub)
    })
}

/// Returns the cells below a lower hub. The list is sorted by `name`.
pub fn cells_below<'c, C>(sorted: &'c [C], lower_hub: &str, name: impl Fn(&C) -> &str) -> &'c [C] {
    let prefix = name_above(lower_hub, "");
    let first = sorted.partition_point(|cell| name(cell) < prefix.as_str());
    let from = sorted.get(first..).unwrap_or_default();
    let count = from.partition_point(|cell| name(cell).starts_with(&prefix));
    from.get(..count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_below_a_lower_hub_are_found_in_a_sorted_list() {
        let sorted = [
            "dfw", "dfw-1", "dfw-1.a", "dfw.a", "dfw.b.c", "dfw1.a", "ord.a",
        ];
        for (lower_hub, expected) in [
            ("dfw", &["dfw.a", "dfw.b.c"][..]),
            ("dfw.b", &["dfw.b.c"]),
            ("dfw-1", &["dfw-1.a"]),
            ("dfw1", &["dfw1.a"]),
            ("ord", &["ord.a"]),
            ("a", &[]),
            ("z", &[]),
        ] {
            assert_eq!(
                cells_below(&sorted, lower_hub, |it| it),
                expected,
                "{lower_hub}"
            );
            let each = sorted.iter().filter(|it| is_below(it, lower_hub));
            assert!(each.eq(expected), "{lower_hub}");
        }
    }

    #[test]
    fn a_cell_is_named_by_the_lower_hubs_above_it() {
        assert_eq!(name_above("dfw", "a.b"), "dfw.a.b");
        let above: Vec<_> = with_lower_hubs("dfw.a.b").collect();
        assert_eq!(above, ["dfw.a.b", "dfw.a", "dfw"]);
        assert!(with_lower_hubs("dfw").eq(["dfw"]));
    }
}
