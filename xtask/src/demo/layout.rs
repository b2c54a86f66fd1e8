//! Fits tables and lines to the width of a terminal.

/// Formats a table. Each column is as wide as its longest cell. If a line would be wider than `width`, columns are
/// narrower.
pub(super) fn table(rows: &[Vec<String>], width: usize) -> Vec<String> {
    let count = rows.first().map_or(0, Vec::len);
    let longest: Vec<_> = (0..count)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let gap = if longest.iter().sum::<usize>() + 2 * count <= width {
        2
    } else {
        1
    };
    let mut left = width;
    let mut widths = Vec::new();
    let mut later: usize = longest.iter().map(|longest| longest + gap).sum();
    for (column, longest) in longest.into_iter().enumerate() {
        let wanted = longest + gap;
        later -= wanted;
        // The first column contains names and gets up to half of the line. Every other column gets an equal share of
        // the rest. If later columns need less than their share, it gets the remaining space too.
        let share = left / if column == 0 { 2 } else { count - column };
        let width = wanted.min(share.max(left.saturating_sub(later)));
        widths.push(width);
        left -= width;
    }
    rows.iter()
        .map(|row| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{:<width$}", cut(cell, width.saturating_sub(gap))));
            cells.collect::<String>().trim_end().to_owned()
        })
        .collect()
}

/// Cuts a line to `width` and marks the cut.
pub(super) fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let beginning = line.chars().take(width.saturating_sub(1));
    beginning.chain((width > 0).then_some('…')).collect()
}

/// Fits a table and the lines below it into `height` lines. Drops the last rows of the table first. If that is not
/// enough, also drops the first lines below the table.
pub(super) fn fit(table: &[String], below: &[String], height: usize) -> Vec<String> {
    if table.len() + below.len() <= height {
        return [table, below].concat();
    }
    // Two lines are reserved: the head of the table, and the line with the number of dropped lines.
    let kept_below = below.len().min(height.saturating_sub(2));
    let kept = height.saturating_sub(kept_below + 1).min(table.len());
    let left_out = table.len() + below.len() - kept - kept_below;
    let mut lines: Vec<_> = table.iter().take(kept).cloned().collect();
    lines.push(format!("… {left_out} lines left out"));
    lines.extend(below.iter().skip(below.len() - kept_below).cloned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let row = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        rows.iter().map(row).collect()
    }

    fn lines(count: usize, name: &str) -> Vec<String> {
        (0..count).map(|n| format!("{name}{n}")).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = rows(&[
            &["", "hub", "ord1"],
            &["web", "-", "1/1 available"],
            &["web-us-dfw", "ready", ""],
        ]);
        assert_eq!(
            table(&rows, 80),
            [
                "            hub    ord1",
                "web         -      1/1 available",
                "web-us-dfw  ready",
            ]
        );
    }

    #[test]
    fn a_column_gets_the_width_that_others_do_not_need() {
        let rows = rows(&[
            &["", "project", "hub", "ord1"],
            &["web", "0/1 unavailable", "-", "-"],
        ]);
        assert_eq!(
            table(&rows, 32),
            ["    project         hub ord1", "web 0/1 unavailable -   -"]
        );
    }

    #[test]
    fn a_narrow_terminal_still_shows_every_column() {
        let long = "a-name-that-is-quite-long";
        let rows = rows(&[
            &["", "project", "hub", "dfw1"],
            &[long, "0/3 unavailable", "-", "ready"],
        ]);
        assert_eq!(
            table(&rows, 40),
            [
                "                    project   hub dfw1",
                "a-name-that-is-qui… 0/3 unav… -   ready",
            ]
        );
        for width in 0..40 {
            for line in table(&rows, width) {
                assert!(line.chars().count() <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn dropped_lines_are_counted() {
        assert_eq!(fit(&lines(2, "t"), &lines(1, "b"), 3), ["t0", "t1", "b0"]);
        assert_eq!(
            fit(&lines(6, "t"), &lines(2, "b"), 5),
            ["t0", "t1", "… 4 lines left out", "b0", "b1"]
        );
        assert_eq!(
            fit(&lines(2, "t"), &lines(5, "b"), 4),
            ["t0", "… 4 lines left out", "b3", "b4"]
        );
        for height in 1..10 {
            assert!(fit(&lines(5, "t"), &lines(5, "b"), height).len() <= height);
        }
    }
}
