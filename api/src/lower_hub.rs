//! `LowerHub`: the cells below a Cluster of the hub that is a hub itself, a lower hub. See
//! docs/concepts/freshness.md#cells-below-lower-hubs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cells_below::{name_above, with_lower_hubs};
use crate::condition::{self, Condition};

/// Condition of a LowerHub: whether the process of the lower hub reports its cells.
pub const REPORTING: &str = "Reporting";
/// Beginning of the name of the Lease that the process of a lower hub renews on the upper hub. The name of the LowerHub
/// follows.
const LEASE_PREFIX: &str = "compute-lower-hub-";
/// Most cells in the list of one status.
pub const CELLS_BELOW_MAX: u32 = 10_000;
/// Longest name of a cell below a lower hub, in characters. A [`CellName`](crate::CellName) is not longer.
pub const CELL_BELOW_NAME_MAX: u32 = 63;
/// Longest message about one cell, in bytes of JSON. It is shorter if many cells are not ready.
pub const CELL_BELOW_MESSAGE_MAX: u32 = 256;

/// Most lower hubs with silent processes in one status.
pub const SILENT_LOWER_HUBS_MAX: u32 = 1_000;

/// Longest UID of a lower hub, in characters. An API server makes UIDs of 36.
const HUB_UID_MAX: u32 = 64;

/// Has no fields: the name says which Cluster of the hub is a lower hub. On the hub, cluster-scoped.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "compute.datumapis.com",
    version = "v1alpha",
    kind = "LowerHub",
    plural = "lowerhubs",
    status = "LowerHubStatus",
    derive = "PartialEq",
    doc = "LowerHub shows the cells below the Cluster of its name, which is a hub itself.",
    printcolumn(name = "Cells", type_ = "integer", json_path = ".status.cellCount"),
    printcolumn(name = "Not ready", type_ = "integer", json_path = ".status.notReady"),
    printcolumn(
        name = "Reporting",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Reporting\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct LowerHubSpec {}

/// The cells below a lower hub, as the process of the lower hub has observed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LowerHubStatus {
    /// The number of all cells, also of those that the list has no space for.
    pub cell_count: i32,
    /// The cells, sorted by name. If there are too many, those that are not ready come first into the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = CELLS_BELOW_MAX),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub cells: Vec<CellBelow>,
    /// Known conditions: Reporting. The upper hub writes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// UID of the Namespace `default` of the lower hub. The process of another lower hub does not write this status.
    #[serde(default, rename = "hubUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = HUB_UID_MAX))]
    pub hub_uid: Option<String>,
    /// The number of all cells that are not ready.
    pub not_ready: i32,
    /// The lower hubs below this one whose processes are silent, sorted by name. The state of the cells below them is as
    /// it was last reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = SILENT_LOWER_HUBS_MAX),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub silent_lower_hubs: Vec<SilentLowerHub>,
}

/// A cell below a lower hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.ready || has(self.since)",
    "message": "a cell that is not ready needs since",
}]))]
pub struct CellBelow {
    /// Why the cell is not ready. Users read it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = CELL_BELOW_MESSAGE_MAX))]
    pub message: String,
    /// Name of the cell on the lower hub: that of its Cluster there. A cell below a further lower hub has the name
    /// of each Cluster that leads to it, separated by dots.
    #[schemars(length(min = 1, max = CELL_BELOW_NAME_MAX))]
    pub name: String,
    /// Whether the lower hub reaches the cell.
    pub ready: bool,
    /// Since when the cell is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A lower hub whose process is silent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SilentLowerHub {
    /// Name of the lower hub on this one: that of its Cluster there. One below a further lower hub has the name of each
    /// Cluster that leads to it, separated by dots.
    #[schemars(length(min = 1, max = CELL_BELOW_NAME_MAX))]
    pub name: String,
    /// Since when its process is silent.
    pub since: Time,
}

impl LowerHubStatus {
    /// Returns whether the process of the lower hub has reported its cells. Without a report, the status can have
    /// conditions only. A process of a former version reports no UID.
    pub fn is_reported(&self) -> bool {
        self.hub_uid.is_some() || self.cell_count > 0
    }

    /// Returns since when the process that writes this status is silent. Then the list of the cells may be old.
    pub fn silent_since(&self) -> Option<&Time> {
        let reporting = condition::find(&self.conditions, REPORTING)?;
        reporting
            .is_false()
            .then_some(&reporting.last_transition_time)
    }

    /// Returns the lower hubs with silent processes: this one, and those below it. Their names are those above this lower
    /// hub, which has the name `lower_hub` there.
    pub fn silent_from(&self, lower_hub: &str) -> Vec<SilentLowerHub> {
        let own = self.silent_since().map(|since| SilentLowerHub {
            name: lower_hub.to_owned(),
            since: since.clone(),
        });
        let below = self.silent_lower_hubs.iter().map(|it| SilentLowerHub {
            name: name_above(lower_hub, &it.name),
            since: it.since.clone(),
        });
        own.into_iter().chain(below).collect()
    }

    /// Returns whether the state of a cell is not known, because the process that writes this status is silent, or that of
    /// a lower hub that leads from here to the cell.
    pub fn is_unknown(&self, cell: &str) -> bool {
        self.silent_since().is_some()
            || with_lower_hubs(cell).any(|name| self.silence_of(name).is_some())
    }

    /// Returns since when the process of a lower hub below is silent. The list is sorted by name.
    pub fn silence_of(&self, lower_hub: &str) -> Option<&Time> {
        let silent = &self.silent_lower_hubs;
        let at = silent.binary_search_by(|it| it.name.as_str().cmp(lower_hub));
        silent.get(at.ok()?).map(|it| &it.since)
    }
}

/// Returns the name of the Lease that the process of a lower hub renews, in the namespace of the manager on the upper
/// hub.
pub fn lease_of(lower_hub: &str) -> String {
    format!("{LEASE_PREFIX}{lower_hub}")
}

/// Returns the LowerHub to which a Lease of this name belongs.
pub fn lower_hub_of(lease: &str) -> Option<&str> {
    lease.strip_prefix(LEASE_PREFIX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_have_the_names_of_the_api() {
        let status = json!({
            "cellCount": 2, "notReady": 1,
            "cells": [
                {"name": "a1", "ready": true},
                {"name": "a2", "ready": false, "since": "2026-11-21T09:30:00Z", "message": "m"},
            ],
            "silentLowerHubs": [{"name": "mid", "since": "2026-11-21T09:30:00Z"}],
        });
        let parsed: LowerHubStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(parsed.cells[1].message, "m");
        assert_eq!(json!(parsed), status);
        let lower_hub = LowerHub::new("dfw", LowerHubSpec {});
        assert_eq!(json!(lower_hub)["spec"], json!({}));
    }
}
