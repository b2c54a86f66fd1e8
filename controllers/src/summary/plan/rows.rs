//! Rows: the document of each, its columns, and the filters.

use api::labels;
use api::workload_summary::{Scalar, SummaryRow};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::cells::Cell;
use super::observed::{ObservedDeployment, ObservedInstance};
use crate::objects::label;
use crate::summary::query::{Column, Filter, Query, Test};
use crate::summary::value::{Ordered, scalar};
use crate::summary::work::{NoResult, Work};

/// Field of the document: the WorkloadDeployment.
const DEPLOYMENT: &str = "deployment";

/// A row, and what its document is made of.
pub(super) struct Row<'a> {
    shown: SummaryRow,
    deployment: &'a ObservedDeployment,
    of: Of<'a>,
}

enum Of<'a> {
    Cell {
        /// See [`shared_document`].
        shared: &'a Value,
        status: Value,
    },
    Instance(&'a ObservedInstance),
}

impl Of<'_> {
    /// Returns why a column cannot be read, although the path may be right: the object cannot be decoded.
    fn problem_of(&self, column: &Column) -> Option<&str> {
        let (problem, unread) = match self {
            Of::Instance(instance) => (instance.problem.as_deref()?, ["spec", "status"]),
            Of::Cell { .. } => return None,
        };
        let root = column.path.root();
        root.is_none_or(|root| unread.contains(&root))
            .then_some(problem)
    }
}

/// Returns the part of the document that all cells of a WorkloadDeployment have in common, as far as the query reads it.
/// It can be large, so it is made only once.
pub(super) fn shared_document(deployment: &ObservedDeployment, query: &Query) -> Value {
    let of = deployment.deployment.as_ref();
    match query.reads(DEPLOYMENT) {
        true => json!({DEPLOYMENT: {"metadata": of.metadata, "spec": of.spec}}),
        false => Value::Null,
    }
}

impl<'a> Row<'a> {
    /// Returns the row of a WorkloadDeployment in a cell.
    pub(super) fn of_cell(
        deployment: &'a ObservedDeployment,
        shared: &'a Value,
        cell: Cell,
    ) -> Self {
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
            of: Of::Cell { shared, status },
        }
    }

    /// Returns the row of an Instance.
    pub(super) fn of_instance(
        deployment: &'a ObservedDeployment,
        observed: &'a ObservedInstance,
    ) -> Self {
        let mut row = Self::begin(deployment);
        let instance = observed.instance.as_ref();
        row.cell = label(instance, labels::SOURCE_CLUSTER).map(str::to_owned);
        row.instance = Some(instance.name_any());
        Self {
            shown: row,
            deployment,
            of: Of::Instance(observed),
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
    /// reads. Unless the query reads the document as a whole, the shared part is left out.
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
            Of::Cell { shared, status } => {
                if query.reads_all()
                    && let Some(shared) = shared.get(DEPLOYMENT)
                {
                    add(DEPLOYMENT, &mut || shared.clone());
                }
                add("reason", &mut || json!(row.reason));
                add("state", &mut || json!(row.state));
                add("status", &mut || status.take());
            }
            Of::Instance(ObservedInstance { instance, .. }) => {
                add(DEPLOYMENT, &mut || json!(row.deployment));
                add("metadata", &mut || json!(instance.metadata));
                add("spec", &mut || json!(instance.spec));
                add("status", &mut || json!(instance.status));
            }
        }
        Value::Object(document)
    }

    /// Evaluates the columns. Returns `None` if a filter does not hold. A row for which a filter cannot be decided is
    /// kept, with the error.
    ///
    /// # Errors
    ///
    /// [`NoResult`] if the evaluation needs too much work.
    pub(super) fn evaluate(
        mut self,
        query: &Query,
        work: &mut Work,
    ) -> Result<Option<SummaryRow>, NoResult> {
        let document = self.document(query);
        work.add_document(&document);
        work.check()?;
        let mut row = self.shown;
        for column in &query.columns {
            if let Some(problem) = self.of.problem_of(column) {
                work.add_text(problem.len());
                row.errors.insert(column.name.clone(), problem.to_owned());
                continue;
            }
            let document = match (&self.of, column.path.root()) {
                (Of::Cell { shared, .. }, Some(DEPLOYMENT)) => shared,
                _ => &document,
            };
            let found = column.path.find(document, work);
            work.check()?;
            match found.and_then(|value| value.map_or(Ok(None), scalar)) {
                Ok(Some(value)) => drop(row.values.insert(column.name.clone(), value)),
                Ok(None) => {}
                Err(problem) => drop(row.errors.insert(column.name.clone(), problem)),
            }
        }
        // Each filter and each aggregate reads its value.
        let filters = query.filters.iter().map(|it| &it.column);
        let aggregates = query.aggregates.iter().filter_map(|it| it.column.as_ref());
        for value in filters.chain(aggregates).chain(row.values.keys()) {
            work.add_text(row.values.get(value).map_or(0, text_len));
        }
        let mut undecided = Vec::new();
        for filter in &query.filters {
            if row.errors.contains_key(&filter.column) {
                continue;
            }
            match filter.holds(row.values.get(&filter.column)) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(problem) => {
                    undecided.push((filter.column.clone(), format!("where: {problem}")));
                }
            }
        }
        row.errors.extend(undecided);
        work.add_row(&row);
        work.check()?;
        Ok(Some(row))
    }
}

/// Returns the length of a value that is a text.
fn text_len(value: &Scalar) -> usize {
    match value {
        Scalar::Text(text) => text.len(),
        Scalar::Bool(_) | Scalar::Integer(_) => 0,
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
