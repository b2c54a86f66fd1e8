//! What the hub remembers of the last reports of cells (docs/concepts/status.md#memory).

use std::collections::BTreeMap;

use api::cells_below::{is_below, name_above};
use api::workload_deployment::CellStatus;
use api::{WorkloadDeployment, WorkloadDeploymentStatus};
use serde_json::{Value, json};

/// The last report of each cell of a WorkloadDeployment, as far as the hub remembers it.
pub(super) struct Memory<'c> {
    /// The report of the only cell, and the name of this cell.
    single: Option<(&'c str, &'c WorkloadDeploymentStatus)>,
    several: BTreeMap<&'c str, &'c CellStatus>,
}

impl<'c> Memory<'c> {
    pub(super) fn of(copy: &'c WorkloadDeployment) -> Self {
        let status = copy.status.as_ref();
        let single = status.and_then(|it| Some((it.reporting_cell.as_deref()?, it)));
        let several = status.map_or(&[][..], |it| &it.cells).iter();
        Self {
            single,
            several: several.map(|cell| (cell.name.as_str(), cell)).collect(),
        }
    }

    /// Returns the last report of a cell.
    pub(super) fn report(&self, cell: &str) -> Option<Value> {
        match self.single {
            Some((name, status)) if name == cell => Some(json!(status)),
            _ => self.several.get(cell).map(|it| json!(it)),
        }
    }

    /// Returns the last report of each cell below a lower hub, by the name of the cell.
    pub(super) fn below(&self, lower_hub: &str) -> BTreeMap<String, Value> {
        let first = name_above(lower_hub, "");
        let several = self.several.range(first.as_str()..);
        let several = several.take_while(|(cell, _)| is_below(cell, lower_hub));
        let several = several.map(|(cell, it)| ((*cell).to_owned(), json!(it)));
        let single = self.single.filter(|(cell, _)| is_below(cell, lower_hub));
        let single = single.map(|(cell, it)| (cell.to_owned(), json!(it)));
        several.chain(single).collect()
    }
}
