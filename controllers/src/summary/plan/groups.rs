//! Groups of rows, and their aggregates.

use std::collections::BTreeMap;

use api::workload_summary::{AggregateFunction, Scalar, SummaryGroup, SummaryRow};

use crate::summary::query::{Aggregate, Query};
use crate::summary::value::aggregate;

/// Returns the groups, sorted by their keys. A missing key comes first. Without `groupBy`, all rows are one group.
pub(super) fn groups(query: &Query, rows: &[SummaryRow]) -> Vec<SummaryGroup> {
    let mut groups = BTreeMap::<Vec<Option<&Scalar>>, Vec<&SummaryRow>>::new();
    if query.group_by.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in rows {
        let keys = query.group_by.iter().map(|column| row.values.get(column));
        groups.entry(keys.collect()).or_default().push(row);
    }
    let groups = groups.into_iter();
    groups
        .map(|(keys, rows)| group(query, &keys, &rows))
        .collect()
}

fn group(query: &Query, keys: &[Option<&Scalar>], rows: &[&SummaryRow]) -> SummaryGroup {
    let named = query.group_by.iter().zip(keys);
    let keys = named.filter_map(|(column, key)| Some((column.clone(), (*key)?.clone())));
    let mut group = SummaryGroup {
        keys: keys.collect(),
        rows: number(rows.len()),
        ..SummaryGroup::default()
    };
    for column in &query.group_by {
        if let Some(problem) = first_error(rows, column) {
            group.errors.insert(column.clone(), problem);
        }
    }
    for aggregate in &query.aggregates {
        add(&mut group, aggregate, rows);
    }
    group
}

/// Adds an aggregate to a group.
fn add(group: &mut SummaryGroup, of: &Aggregate, rows: &[&SummaryRow]) {
    let Some(column) = &of.column else {
        let count = Scalar::Integer(number(rows.len()));
        group.values.insert(of.name.clone(), count);
        return;
    };
    let values = rows.iter().filter_map(|row| row.values.get(column));
    let missing = rows.len() - values.clone().count();
    let result = match first_error(rows, column) {
        Some(problem) => Err(problem),
        None => aggregate(of.function, values),
    };
    match result {
        Ok(value) => group
            .values
            .extend(value.map(|value| (of.name.clone(), value))),
        Err(problem) => drop(group.errors.insert(of.name.clone(), problem)),
    }
    if missing > 0 && of.function != AggregateFunction::Count {
        group.missing.insert(of.name.clone(), number(missing));
    }
}

/// Returns the error of the first row that has one in this column.
fn first_error(rows: &[&SummaryRow], column: &str) -> Option<String> {
    rows.iter().find_map(|row| {
        let problem = row.errors.get(column)?;
        let of = row.instance.as_ref().or(row.cell.as_ref());
        let of = of.map_or_else(String::new, |of| format!(" in {of}"));
        Some(format!("{}{of}: {problem}", row.deployment))
    })
}

fn number(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
