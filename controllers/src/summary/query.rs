//! The query of a summary, checked and ready to be evaluated.

use std::collections::BTreeSet;

use api::WorkloadSummarySpec;
use api::label_selector::values_problem;
use api::workload_summary::{
    AGGREGATES_MAX, AggregateFunction, COLUMNS_MAX, FILTERS_MAX, FilterOperator, GROUP_BY_MAX,
    SELECTOR_MAX, SummaryFilter, SummaryRows, TEXT_MAX,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};

use super::path::FieldPath;
use super::value::Ordered;
use crate::objects::StringMap;

/// A query.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) rows: SummaryRows,
    pub(super) workloads: SelectedWorkloads,
    pub(super) columns: Vec<Column>,
    pub(super) filters: Vec<Filter>,
    pub(super) group_by: Vec<String>,
    pub(super) aggregates: Vec<Aggregate>,
}

/// Which Workloads of the namespace the query is about.
#[derive(Debug)]
pub(super) enum SelectedWorkloads {
    Named(String),
    Labelled(Selector),
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) path: FieldPath,
}

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) column: String,
    pub(super) test: Test,
}

/// A test of the value of a column.
#[derive(Debug)]
pub(super) enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(Ordered),
    LessThan(Ordered),
}

#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) name: String,
    pub(super) function: AggregateFunction,
    pub(super) column: Option<String>,
}

impl SelectedWorkloads {
    /// Returns whether the query is about a Workload with this metadata.
    pub(super) fn contains(&self, workload: &ObjectMeta) -> bool {
        match self {
            Self::Named(name) => workload.name.as_ref() == Some(name),
            Self::Labelled(selector) => {
                let none = StringMap::new();
                selector.matches(workload.labels.as_ref().unwrap_or(&none))
            }
        }
    }
}

impl Query {
    /// Checks a query. The CRD has most of these checks too, but an API server can have another version of it.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the field.
    pub(super) fn of(spec: &WorkloadSummarySpec) -> Result<Self, String> {
        check_lengths(spec)?;
        let names: BTreeSet<_> = spec.columns.iter().map(|it| it.name.as_str()).collect();
        if names.len() < spec.columns.len() {
            return Err("spec.columns: a name is there twice".to_owned());
        }
        let aggregates: BTreeSet<_> = spec.aggregates.iter().map(|it| &it.name).collect();
        if aggregates.len() < spec.aggregates.len() {
            return Err("spec.aggregates: a name is there twice".to_owned());
        }
        let known = |field: String, column: &str| match names.contains(column) {
            true => Ok(column.to_owned()),
            false => Err(format!("{field}: no column has the name {column:?}")),
        };
        let columns = spec.columns.iter().enumerate().map(|(at, column)| {
            let field = |problem| format!("spec.columns[{at}].path: {problem}");
            match column.path.chars().count() > text_max() {
                true => Err(field(format!("more than {TEXT_MAX} characters"))),
                false => Ok(Column {
                    name: column.name.clone(),
                    path: FieldPath::parse(&column.path).map_err(field)?,
                }),
            }
        });
        let filters = spec.filters.iter().enumerate().map(|(at, filter)| {
            let field = format!("spec.where[{at}]");
            Ok(Filter {
                column: known(format!("{field}.column"), &filter.column)?,
                test: test(filter).map_err(|problem| format!("{field}.values: {problem}"))?,
            })
        });
        let group_by = spec.group_by.iter().enumerate();
        let group_by = group_by.map(|(at, column)| known(format!("spec.groupBy[{at}]"), column));
        let aggregates = spec.aggregates.iter().enumerate().map(|(at, aggregate)| {
            let field = format!("spec.aggregates[{at}].column");
            let column = match &aggregate.column {
                Some(column) => Some(known(field, column)?),
                None if aggregate.function == AggregateFunction::Count => None,
                None => return Err(format!("{field} is required, except for Count")),
            };
            // Their errors have the same keys in a group.
            if spec.group_by.contains(&aggregate.name) {
                return Err(format!(
                    "spec.aggregates[{at}].name: groupBy has a column of the name {:?}",
                    aggregate.name
                ));
            }
            Ok(Aggregate {
                name: aggregate.name.clone(),
                function: aggregate.function,
                column,
            })
        });
        Ok(Self {
            rows: spec.rows,
            workloads: selected(spec)?,
            columns: columns.collect::<Result<_, String>>()?,
            filters: filters.collect::<Result<_, String>>()?,
            group_by: group_by.collect::<Result<_, String>>()?,
            aggregates: aggregates.collect::<Result<_, String>>()?,
        })
    }

    /// Returns whether a column reads this field of the document.
    pub(super) fn reads(&self, field: &str) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.path.root().is_none_or(|root| root == field))
    }

    /// Returns whether a column reads the document as a whole.
    pub(super) fn reads_all(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.path.root().is_none())
    }

    /// Returns whether the result has groups instead of rows.
    pub(super) fn is_grouped(&self) -> bool {
        !self.group_by.is_empty() || !self.aggregates.is_empty()
    }
}

/// Returns [`TEXT_MAX`] as a length.
fn text_max() -> usize {
    usize::try_from(TEXT_MAX).unwrap_or(usize::MAX)
}

/// Checks the lengths of all lists. They bound the cost of an evaluation.
fn check_lengths(spec: &WorkloadSummarySpec) -> Result<(), String> {
    for (field, length, max) in [
        ("columns", spec.columns.len(), COLUMNS_MAX),
        ("where", spec.filters.len(), FILTERS_MAX),
        ("groupBy", spec.group_by.len(), GROUP_BY_MAX),
        ("aggregates", spec.aggregates.len(), AGGREGATES_MAX),
    ] {
        if u32::try_from(length).map_or(true, |length| length > max) {
            return Err(format!("spec.{field}: more than {max} entries"));
        }
    }
    Ok(())
}

fn selected(spec: &WorkloadSummarySpec) -> Result<SelectedWorkloads, String> {
    match (&spec.workload, &spec.selector) {
        (Some(name), None) => Ok(SelectedWorkloads::Named(name.clone())),
        (None, Some(selector)) => {
            check_selector(selector)?;
            let selector = Selector::try_from(selector.clone());
            let selector = selector.map_err(|error| format!("spec.selector: {error}"))?;
            Ok(SelectedWorkloads::Labelled(selector))
        }
        _ => Err("spec: exactly one of workload and selector is required".to_owned()),
    }
}

/// Checks the lists of a selector. It is compared with each Workload of the namespace.
fn check_selector(selector: &LabelSelector) -> Result<(), String> {
    let is_long = |length: usize| u32::try_from(length).map_or(true, |it| it > SELECTOR_MAX);
    let labels = selector.match_labels.as_ref().map_or(0, StringMap::len);
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    for (field, length) in [
        ("matchLabels", labels),
        ("matchExpressions", expressions.len()),
    ] {
        if is_long(length) {
            return Err(format!(
                "spec.selector.{field}: more than {SELECTOR_MAX} entries"
            ));
        }
    }
    let is_long = |values: Option<&Vec<_>>| is_long(values.map_or(0, Vec::len));
    let long = expressions
        .iter()
        .position(|it| is_long(it.values.as_ref()));
    if let Some(at) = long {
        return Err(format!(
            "spec.selector.matchExpressions[{at}].values: more than {SELECTOR_MAX} entries"
        ));
    }
    match values_problem(selector) {
        Some(problem) => Err(format!("spec.selector.{problem}")),
        None => Ok(()),
    }
}

/// Returns the test of a filter.
fn test(filter: &SummaryFilter) -> Result<Test, String> {
    let values = || match filter.values.is_empty() {
        true => Err("at least one value is required".to_owned()),
        false => Ok(filter.values.iter().cloned().collect()),
    };
    let ordered = || match filter.values.as_slice() {
        [value] => Ordered::parse(value)
            .ok_or_else(|| format!("{value:?} is neither a number, nor a quantity, nor a time")),
        _ => Err("exactly one value is required".to_owned()),
    };
    let none = |test| match filter.values.is_empty() {
        true => Ok(test),
        false => Err("no value is allowed".to_owned()),
    };
    match filter.operator {
        FilterOperator::In => values().map(Test::In),
        FilterOperator::NotIn => values().map(Test::NotIn),
        FilterOperator::Exists => none(Test::Exists),
        FilterOperator::DoesNotExist => none(Test::DoesNotExist),
        FilterOperator::GreaterThan => ordered().map(Test::GreaterThan),
        FilterOperator::LessThan => ordered().map(Test::LessThan),
    }
}

#[cfg(test)]
mod tests;
