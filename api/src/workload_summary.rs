//! `WorkloadSummary`: a query over the cells or the Instances of Workloads, and its result. See docs/operate/summaries.md.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::condition::Condition;

/// Condition of a [`WorkloadSummary`]: the status is the result of the query in `spec`.
pub const CURRENT: &str = "Current";

/// Most columns. Each is evaluated once for each row.
pub const COLUMNS_MAX: u32 = 16;
/// Most entries of `where`, and most values of one entry.
pub const FILTERS_MAX: u32 = 16;
/// Most columns in `groupBy`.
pub const GROUP_BY_MAX: u32 = 4;
/// Most aggregates.
pub const AGGREGATES_MAX: u32 = 16;
/// Most entries of `matchLabels` and of `matchExpressions` of `selector`, and most values of one entry.
pub const SELECTOR_MAX: u32 = 16;
/// Longest path of a column, and longest value of `where`, in characters.
pub const TEXT_MAX: u32 = 256;

/// Form of the names of columns and aggregates.
const NAME: &str = "^[a-z][a-zA-Z0-9]{0,31}$";

/// The reasons of rows whose cell does not say what runs there.
pub mod row_reason {
    pub use crate::reasons::workload_deployment::{
        CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELL_UNREACHABLE, LOWER_HUB_SILENT, NO_MATCHING_CELL,
    };
    /// The hub does not have the WorkloadDeployment yet.
    pub const NOT_ON_HUB: &str = "NotOnHub";
    /// No cell has been selected yet.
    pub const NOT_SCHEDULED: &str = "NotScheduled";
    /// The cell is no longer selected, but has not removed the WorkloadDeployment yet.
    pub const NO_LONGER_SELECTED: &str = "NoLongerSelected";
    /// It is not known which cells are selected: the hub does not tell.
    pub const CELLS_NOT_KNOWN: &str = "CellsNotKnown";
}

/// A query over the cells or the Instances of Workloads.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "WorkloadSummary",
    plural = "workloadsummaries",
    namespaced,
    status = "WorkloadSummaryStatus",
    derive = "PartialEq",
    doc = "WorkloadSummary shows the cells or the Instances of Workloads as a table.",
    annotation("discovery.miloapis.com/parent-contexts", "Project"),
    printcolumn(name = "Of", type_ = "string", json_path = ".spec.rows"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.total"),
    printcolumn(
        name = "Current",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Current\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct WorkloadSummarySpec {
    /// Values that are computed from all rows, or from those of each group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = AGGREGATES_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub aggregates: Vec<SummaryAggregate>,
    /// The values of each row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = COLUMNS_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub columns: Vec<SummaryColumn>,
    /// Columns. Rows with the same values in all of them are one group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = GROUP_BY_MAX),
        inner(length(max = 32)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub group_by: Vec<String>,
    /// What a row is.
    pub rows: SummaryRows,
    /// Selects Workloads of the namespace by their labels. An empty selector selects all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = bound_selector)]
    pub selector: Option<LabelSelector>,
    /// Only rows for which all entries hold are counted and shown.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FILTERS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub filters: Vec<SummaryFilter>,
    /// Name of one Workload of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub workload: Option<String>,
}

/// Bounds the lists of a label selector.
fn bound_selector(schema: &mut Schema) {
    for (field, bound) in [
        ("/properties/matchExpressions", "maxItems"),
        (
            "/properties/matchExpressions/items/properties/values",
            "maxItems",
        ),
        ("/properties/matchLabels", "maxProperties"),
    ] {
        let field = schema.pointer_mut(field).and_then(Value::as_object_mut);
        if let Some(field) = field {
            field.insert(bound.to_owned(), json!(SELECTOR_MAX));
        }
    }
}

/// Returns the rules of the spec that span several fields.
fn spec_rules() -> Value {
    let column_exists = |list: &str, each: &str, column: &str| {
        format!(
            "!has(self.{list}) || self.{list}.all(it, {each}(has(self.columns) && self.columns.exists(column, column.name == \
             {column})))"
        )
    };
    let rule = |rule: &str, message: &str| json!({"rule": rule, "message": message});
    json!([
        rule(
            "has(self.workload) != has(self.selector)",
            "exactly one of workload and selector is required",
        ),
        rule(
            &column_exists("where", "", "it.column"),
            "where: a column is not in columns",
        ),
        rule(
            &column_exists("groupBy", "", "it"),
            "groupBy: a column is not in columns",
        ),
        rule(
            &column_exists("aggregates", "!has(it.column) || ", "it.column"),
            "aggregates: a column is not in columns",
        ),
    ])
}

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SummaryRows {
    /// A WorkloadDeployment in a cell, for each cell that is expected to run it.
    #[default]
    Cells,
    /// An Instance.
    Instances,
}

/// A value of each row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryColumn {
    /// Name of the column.
    #[schemars(length(max = 32), regex(pattern = NAME))]
    pub name: String,
    /// Where the value is in the document of the row. A subset of JSONPath (RFC 9535), such as `$.status.readyReplicas`
    /// and `$.status.conditions[?@.type == 'Available'].status`.
    #[schemars(length(min = 1, max = TEXT_MAX))]
    pub path: String,
}

/// A comparison of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : \
        self.operator in ['GreaterThan', 'LessThan'] ? has(self.values) && size(self.values) == 1 : !has(self.values)",
    "message": "In and NotIn need values, GreaterThan and LessThan need one, Exists and DoesNotExist need none",
}]))]
pub struct SummaryFilter {
    /// Name of the column.
    #[schemars(length(min = 1, max = 32))]
    pub column: String,
    /// The comparison.
    pub operator: FilterOperator,
    /// The other side of the comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = FILTERS_MAX),
        inner(length(max = TEXT_MAX)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// A comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum FilterOperator {
    /// The value is one of the values.
    In,
    /// The value is none of the values, or there is no value.
    NotIn,
    /// There is a value.
    #[default]
    Exists,
    /// There is no value.
    DoesNotExist,
    /// The value is greater.
    GreaterThan,
    /// The value is less.
    LessThan,
}

/// A value that is computed from several rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.function == 'Count' || has(self.column)",
    "message": "Sum, Min and Max need a column",
}]))]
pub struct SummaryAggregate {
    /// The column. `Count` without a column counts the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub column: Option<String>,
    /// How the value is computed.
    pub function: AggregateFunction,
    /// Name of the value.
    #[schemars(length(max = 32), regex(pattern = NAME))]
    pub name: String,
}

/// How a value is computed from several rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AggregateFunction {
    /// The number of rows that have a value in the column.
    #[default]
    Count,
    /// The sum of integers or of quantities.
    Sum,
    /// The smallest integer or quantity, or the earliest time.
    Min,
    /// The greatest integer or quantity, or the latest time.
    Max,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummaryStatus {
    /// Known conditions: Current.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The groups, if the query has `groupBy` or `aggregates`. Sorted by their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SummaryGroup>,
    /// The generation of the query that the status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Rows or groups that are left out, because there are too many or they are too large together.
    #[serde(default)]
    pub omitted: i64,
    /// The rows, if the query has neither `groupBy` nor `aggregates`. Sorted by Workload, city, WorkloadDeployment, and
    /// cell or Instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<SummaryRow>,
    /// The number of rows for which `where` holds, including those that are left out.
    #[serde(default)]
    pub total: i64,
}

/// A row of a summary.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryRow {
    /// Name of the cell. Absent while no cell is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Code of the city.
    pub city: String,
    /// Name of the WorkloadDeployment.
    pub deployment: String,
    /// Why a column has no value, or why `where` cannot be decided, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
    /// Name of the Instance. Only in rows of Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Details of `reason`, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the state is not `Reported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when the reason holds, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Whether the cell says what runs there. Only in rows of cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RowState>,
    /// The values, by column. A column without a value is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Scalar>,
    /// Name of the Workload.
    pub workload: String,
}

/// Whether a cell says what runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RowState {
    /// The values are what the cell reports.
    Reported,
    /// The cell does not report. The values are those of its last report, if there is one.
    NotReported,
    /// The cell cannot be reached. The values are those of its last report, if there is one.
    Unreachable,
    /// The cell is no longer selected. The values are what it reports.
    Leaving,
    /// No cell is selected yet, or none matches.
    NotPlaced,
    /// It is not known which cells are selected, or whether the cell can be reached. The values are those of its last
    /// report, if there is one.
    Unknown,
}

impl RowState {
    /// Returns the name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "Reported",
            Self::NotReported => "NotReported",
            Self::Unreachable => "Unreachable",
            Self::Leaving => "Leaving",
            Self::NotPlaced => "NotPlaced",
            Self::Unknown => "Unknown",
        }
    }
}

/// The rows that have the same values in all columns of `groupBy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryGroup {
    /// Why an aggregate has no value, by aggregate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
    /// The values of the columns of `groupBy`. A column without a value is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, Scalar>,
    /// The number of rows that have no value for an aggregate, by aggregate. An aggregate that all rows have a value for
    /// is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, i64>,
    /// The number of rows.
    pub rows: i64,
    /// The values of the aggregates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Scalar>,
}

/// A value of a row or of a group. The order is for sorting: booleans, then integers, then texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A structural schema cannot say that a value has one of several types.
        json_schema!({
            "description": "A boolean, an integer or a text.",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

#[cfg(test)]
mod tests;
