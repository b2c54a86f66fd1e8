//! Finds the cells below a lower hub that lack an object which the lower hub has.
//!
//! Karmada of the lower hub loses a write in the same way as Karmada of the hub. No federator runs on the lower hub. The
//! annotation of a re-application reaches the object on the lower hub, and so makes Karmada write it to the cells below.

use std::collections::BTreeSet;

use api::workload_deployment::{
    CELL_NOT_APPLIED, CELL_NOT_REPORTED, CELLS_REPORTING, NO_MATCHING_CELL,
};
use interpreters::fold::{NamedCells, usable_name_above};
use serde::Deserialize;

use crate::federator::cell_items::ReportedObject;

/// The objects that reachable cells below a lower hub lack.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LackedBelow {
    pub(super) namespace: bool,
    pub(super) copy: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReportedCondition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

impl LackedBelow {
    /// Returns what the cells below lack although Karmada of the lower hub treats it as applied, as the object on the lower
    /// hub says. `is_reachable` is about a cell below. `namespace_missing` is the error of an API server about an object in
    /// a missing namespace.
    pub(super) fn of(
        lower_hub: &str,
        reported: &ReportedObject,
        is_reachable: impl Fn(&str) -> bool,
        namespace_missing: &str,
    ) -> Self {
        let problem = problem(reported);
        let named = problem.as_ref();
        let named = named.map(|it| NamedCells::of(lower_hub, &it.message));
        let is_named = |cell: &str| named.as_ref().is_some_and(|it| it.concerns(cell));
        let behind = reported.cells_behind();
        let mut behind = behind.filter_map(|cell| usable_name_above(lower_hub, cell));
        let is_behind = behind.any(|cell| !is_named(&cell) && is_reachable(&cell));
        let behind = Self {
            namespace: false,
            copy: is_behind,
        };
        let (Some(problem), Some(named)) = (&problem, &named) else {
            return behind;
        };
        let has_reachable = |cells: &BTreeSet<String>| cells.iter().any(|cell| is_reachable(cell));
        match problem.reason.as_str() {
            // Karmada of the lower hub has written the object, and has never seen it.
            CELL_NOT_REPORTED if has_reachable(&named.names) => Self {
                namespace: true,
                copy: true,
            },
            // Of several problems, the reason is this one. Karmada of the lower hub itself retries where the object is
            // not applied, and reports the cause.
            CELL_NOT_APPLIED => {
                let is_lost = has_reachable(&named.unreported);
                let is_missing = || problem.message.contains(namespace_missing);
                Self {
                    namespace: is_lost || is_missing() && has_reachable(&named.names),
                    copy: is_lost || behind.copy,
                }
            }
            NO_MATCHING_CELL => Self::default(),
            _ => behind,
        }
    }
}

/// Returns the condition `CellsReporting` of a lower hub, if it is False. Only a lower hub has it.
fn problem(reported: &ReportedObject) -> Option<ReportedCondition> {
    let conditions = reported.conditions.as_deref()?.get();
    if !conditions.contains(CELLS_REPORTING) {
        return None;
    }
    let conditions: Vec<ReportedCondition> = serde_json::from_str(conditions).ok()?;
    let mut conditions = conditions.into_iter();
    conditions.find(|it| it.r#type == CELLS_REPORTING && it.status == "False")
}

impl ReportedObject {
    /// Returns the cells below a lower hub that have not acted on its object.
    fn cells_behind(&self) -> impl Iterator<Item = &str> {
        let is_other = |acted: Option<i64>| {
            let of_object = acted.zip(self.generation);
            of_object.is_some_and(|(acted, current)| acted != current)
        };
        let several = self.cells.iter();
        let several = several.filter(move |cell| is_other(cell.resource_template_generation));
        let only = self.reporting_cell.as_deref();
        let only = only.filter(|_| self.cells.is_empty() && is_other(self.observed_generation));
        several.map(|cell| cell.name.as_str()).chain(only)
    }
}
