//! Computes the status of a summary.

mod below;
mod cells;
mod groups;
mod memory;
mod observed;
mod rows;

use api::reasons::workload_summary as reason;
use api::workload_summary::{CURRENT, SummaryGroup, SummaryRow, SummaryRows};
use api::{Condition, ConditionStatus, WorkloadSummary, WorkloadSummaryStatus, condition};
use jiff::Timestamp;
use serde::Serialize;

use super::query::Query;
use super::work::{NoResult, Work};
use cells::{cells, former_cells};
pub(super) use observed::{HubCopy, KnownCells, Observed, ObservedDeployment, ObservedInstance};
use rows::{Row, shared_document};

/// Most rows that one summary evaluates. It bounds the memory of an evaluation, and [`super::work::WORK_MAX`] bounds the time.
pub(crate) const ROWS_EVALUATED_MAX: usize = 10_000;
/// Most rows or groups in the status of a summary.
pub(crate) const ROWS_SHOWN_MAX: usize = 500;
/// Most bytes of the rows or groups in the status of a summary. An API server stores objects of up to 1.5 MiB, and every
/// change writes the whole status.
pub(crate) const ROWS_BYTES_MAX: usize = 256 * 1024;

/// The result of a query.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table {
    rows: Vec<SummaryRow>,
    groups: Vec<SummaryGroup>,
    omitted: usize,
    total: usize,
}

/// Evaluates a query.
///
/// # Errors
///
/// [`NoResult`] if there are too many rows, or if the evaluation needs too much work.
pub(super) fn evaluate(query: &Query, observed: &Observed<'_>) -> Result<Table, NoResult> {
    let mut all = Vec::new();
    let mut evaluated = 0_usize;
    let mut work = Work::default();
    let mut add = |row: Row<'_>, work: &mut Work| {
        evaluated += 1;
        if evaluated > ROWS_EVALUATED_MAX {
            return Err(NoResult {
                reason: reason::TOO_MANY_ROWS,
                message: format!(
                    "the query selects more than {ROWS_EVALUATED_MAX} rows: select fewer Workloads"
                ),
            });
        }
        all.extend(row.evaluate(query, work)?);
        Ok(())
    };
    match query.rows {
        SummaryRows::Cells => {
            let former = former_cells(observed.former);
            for deployment in &observed.deployments {
                let shared = shared_document(deployment, query);
                work.add_document(&shared);
                let cells = cells(deployment, query, observed, &former, &mut work);
                work.check()?;
                for cell in cells {
                    add(Row::of_cell(deployment, &shared, cell), &mut work)?;
                }
            }
        }
        SummaryRows::Instances => {
            for instance in &observed.instances {
                if let Some(deployment) = observed.deployments.get(instance.of) {
                    add(Row::of_instance(deployment, instance), &mut work)?;
                }
            }
        }
    }
    all.sort_by(|one, other| position(one).cmp(&position(other)));
    let total = all.len();
    Ok(match query.is_grouped() {
        true => {
            let (groups, omitted) = bounded(groups::groups(query, &all));
            Table {
                groups,
                omitted,
                total,
                ..Table::default()
            }
        }
        false => {
            let (rows, omitted) = bounded(all);
            Table {
                rows,
                omitted,
                total,
                ..Table::default()
            }
        }
    })
}

/// Returns what rows are sorted by.
fn position(row: &SummaryRow) -> [&str; 5] {
    [
        &row.workload,
        &row.city,
        &row.deployment,
        row.cell.as_deref().unwrap_or_default(),
        row.instance.as_deref().unwrap_or_default(),
    ]
}

/// Returns the first items, as many as the status may have, and the number of the others.
fn bounded<T: Serialize>(mut items: Vec<T>) -> (Vec<T>, usize) {
    let (all, mut bytes) = (items.len(), 0_usize);
    let shown = items.iter().take(ROWS_SHOWN_MAX).take_while(|item| {
        // These types have no value that JSON cannot have.
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes <= ROWS_BYTES_MAX
    });
    let shown = shown.count();
    items.truncate(shown);
    (items, all - shown)
}

/// Returns the status of a summary, if it differs from its current status.
pub(super) fn changed_status(
    summary: &WorkloadSummary,
    result: Result<Table, NoResult>,
    now: Timestamp,
) -> Option<WorkloadSummaryStatus> {
    let former = summary.status.as_ref();
    let generation = summary.metadata.generation;
    let (table, status, reason, message) = match result {
        Ok(table) => (
            table,
            ConditionStatus::True,
            reason::EVALUATED,
            String::new(),
        ),
        Err(NoResult { reason, message }) => {
            (Table::default(), ConditionStatus::False, reason, message)
        }
    };
    let mut conditions = former.map_or_else(Vec::new, |former| former.conditions.clone());
    let current = Condition::new(CURRENT, status, reason, message, now).observed(generation);
    condition::set(&mut conditions, current);
    let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let status = WorkloadSummaryStatus {
        conditions,
        groups: table.groups,
        observed_generation: generation,
        omitted: number(table.omitted),
        rows: table.rows,
        total: number(table.total),
    };
    (former != Some(&status)).then_some(status)
}

#[cfg(test)]
mod tests;
