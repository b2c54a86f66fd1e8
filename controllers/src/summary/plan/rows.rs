//! Rows: the document of each, its columns, and the filters.

use api::Instance;
use api::labels;
use api::workload_summary::{Scalar, SummaryRow};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::cells::Cell;
use super::observed::ObservedDeployment;
use crate::objects::label;
use crate::summary::query::{Filter, Query, Test};
use crate::summary::value::{Ordered, scalar};

/// A row, and what its document is made of.
pub(super) struct Row<'a> {
    shown: SummaryRow,
    deployment: &'a ObservedDeployment,
    of: Of<'a>,
}

enum Of<'a> {
    Cell(Value),
    Instance(&'a Instance),
}

impl<'a> Row<'a> {
    /// Returns the row of a WorkloadDeployment in a cell.
    pub(super) fn of_cell(deployment: &'a ObservedDeployment, cell: Cell) -> Self {
        let Cell {
            name,
            state,
            why,
            status,
        } = cell;
        let mut row = Self::begin(deployment);
        row.cell = name;
        row.state = Some(state);
        if let Some(why) = why {
            row.reason = Some(why.reason.to_owned());
            row.message = Some(why.message).filter(|it| !it.is_empty());
            row.since = Some(why.since);
        }
        Self {
            shown: row,
            deployment,
            of: Of::Cell(status),
        }
    }

    /// Returns the row of an Instance.
    pub(super) fn of_instance(deployment: &'a ObservedDeployment, instance: &'a Instance) -> Self {
        let mut row = Self::begin(deployment);
        row.cell = label(instance, labels::SOURCE_CLUSTER).map(str::to_owned);
        row.instance = Some(instance.name_any());
        Self {
            shown: row,
            deployment,
            of: Of::Instance(instance),
        }
    }

    fn begin(deployment: &ObservedDeployment) -> SummaryRow {
        SummaryRow {
            workload: deployment.workload.clone(),
            city: deployment.deployment.spec.city_code.clone(),
            deployment: deployment.deployment.name_any(),
            ..SummaryRow::default()
        }
    }

    /// Returns the document of the row (docs/operate/summaries.md#the-document-of-a-row), with the fields that the query
    /// reads.
    fn document(&mut self, query: &Query) -> Value {
        let Self {
            shown: row,
            deployment,
            of,
        } = self;
        let of_deployment = deployment.deployment.as_ref();
        let mut document = Map::new();
        let mut add = |field: &str, value: &mut dyn FnMut() -> Value| {
            if query.reads(field) {
                document.insert(field.to_owned(), value());
            }
        };
        add("cell", &mut || json!(row.cell));
        add("city", &mut || json!(row.city));
        add("workload", &mut || json!(row.workload));
        add("placement", &mut || {
            json!(of_deployment.spec.placement_name)
        });
        match of {
            Of::Cell(status) => {
                add(
                    "deployment",
                    &mut || json!({"metadata": of_deployment.metadata, "spec": of_deployment.spec}),
                );
                add("reason", &mut || json!(row.reason));
                add("state", &mut || json!(row.state));
                add("status", &mut || status.take());
            }
            Of::Instance(instance) => {
                add("deployment", &mut || json!(row.deployment));
                add("metadata", &mut || json!(instance.metadata));
                add("spec", &mut || json!(instance.spec));
                add("status", &mut || json!(instance.status));
            }
        }
        Value::Object(document)
    }

    /// Evaluates the columns. Returns `None` if a filter does not hold. A row for which a filter cannot be decided is
    /// kept, with the error.
    pub(super) fn evaluate(mut self, query: &Query) -> Option<SummaryRow> {
        let document = self.document(query);
        let mut row = self.shown;
        for column in &query.columns {
            let found = column.path.find(&document);
            match found.and_then(|value| value.map_or(Ok(None), scalar)) {
                Ok(Some(value)) => drop(row.values.insert(column.name.clone(), value)),
                Ok(None) => {}
                Err(problem) => drop(row.errors.insert(column.name.clone(), problem)),
            }
        }
        let mut undecided = Vec::new();
        for filter in &query.filters {
            if row.errors.contains_key(&filter.column) {
                continue;
            }
            match filter.holds(row.values.get(&filter.column)) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(problem) => {
                    undecided.push((filter.column.clone(), format!("where: {problem}")));
                }
            }
        }
        row.errors.extend(undecided);
        Some(row)
    }
}

impl Filter {
    /// Returns whether the filter holds for a value.
    ///
    /// # Errors
    ///
    /// A sentence if the value cannot be compared.
    fn holds(&self, value: Option<&Scalar>) -> Result<bool, String> {
        let Some(value) = value else {
            return Ok(matches!(self.test, Test::NotIn(_) | Test::DoesNotExist));
        };
        match &self.test {
            Test::In(values) => Ok(values.contains(&value.to_string())),
            Test::NotIn(values) => Ok(!values.contains(&value.to_string())),
            Test::Exists => Ok(true),
            Test::DoesNotExist => Ok(false),
            Test::GreaterThan(other) => Ordered::of(value)?.is_greater(*other),
            Test::LessThan(other) => other.is_greater(Ordered::of(value)?),
        }
    }
}
