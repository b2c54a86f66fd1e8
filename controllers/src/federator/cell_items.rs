//! The reports of the cells in the binding of a copy.

use std::collections::BTreeMap;

use api::karmada::ResourceBinding;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of Karmada's `AggregatedStatusItem` that show the state of a cell (docs/concepts/status.md).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CellItem {
    cluster_name: String,
    pub(super) applied: bool,
    /// The message of the Work's condition `Applied`. It contains the error of the cell's API server.
    pub(super) applied_message: String,
    /// Absent until Karmada has observed the object in the cell.
    pub(super) status: Option<ReportedObject>,
}

/// The name of the cell of an `AggregatedStatusItem` that cannot be decoded otherwise.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedItem {
    cluster_name: String,
}

/// The result of `InterpretStatus`. The result is empty while the object has no status or is terminating.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReportedObject {
    pub(super) resource_template_generation: Option<i64>,
    pub(super) generation: Option<i64>,
    pub(super) observed_generation: Option<i64>,
    pub(super) assigned_replicas: Option<i64>,
    pub(super) assigned_min_replicas: Option<i64>,
    /// An interpreter of an earlier version does not report it.
    pub(super) cell_rules_stamp: Option<i64>,
    /// Absent if the cell's controller has not written a status.
    pub(super) replicas: Option<i64>,
    /// A list. Its entries are decoded only if they matter.
    pub(super) conditions: Option<Box<RawValue>>,
    /// The cells below a lower hub.
    pub(super) cells: Vec<ReportedCellBelow>,
    /// The only cell below a lower hub.
    pub(super) reporting_cell: Option<String>,
}

/// The last report of a cell below a lower hub.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReportedCellBelow {
    pub(super) name: String,
    pub(super) replicas: i64,
    /// The generation of the lower hub's object that the cell last acted on.
    pub(super) resource_template_generation: Option<i64>,
}

/// Returns the items of a binding by the name of their cell. An item that cannot be decoded is `None`: it must not hide
/// the items of other cells.
pub(super) fn items_by_cell(binding: &ResourceBinding) -> BTreeMap<String, Option<CellItem>> {
    let items = binding.status.as_ref();
    let items = items.and_then(|status| status.aggregated_status.as_ref());
    let items = items.and_then(|items| serde_json::from_str::<Vec<&RawValue>>(items.get()).ok());
    let read = |item: &RawValue| match serde_json::from_str::<CellItem>(item.get()) {
        Ok(item) => Some((item.cluster_name.clone(), Some(item))),
        Err(_) => {
            let NamedItem { cluster_name } = serde_json::from_str(item.get()).ok()?;
            Some((cluster_name, None))
        }
    };
    items
        .unwrap_or_default()
        .into_iter()
        .filter_map(read)
        .collect()
}
