//! The cells of a WorkloadDeployment, and what each of them says.

use std::collections::BTreeMap;

use api::cells_below::is_below;
use api::instance::REFERENCED_DATA_READY;
use api::karmada::ResourceBinding;
use api::lower_hub::SilentLowerHub;
use api::workload_summary::{RowState, SummaryRow, row_reason};
use api::{WorkloadDeployment, decode};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::below::{self, Problem};
use super::memory::Memory;
use super::observed::{HubCopy, Observed, ObservedDeployment};
use crate::hub::cells::{CellState, nowhere};
use crate::summary::query::Query;
use crate::summary::work::Work;

const OBSERVED_GENERATION: &str = "observedGeneration";

/// Fields of a report that a customer does not see.
const HIDDEN: [&str; 11] = [
    "assignedMinReplicas",
    "assignedReplicas",
    "cellRulesStamp",
    "cells",
    "generation",
    "name",
    OBSERVED_GENERATION,
    "reportingCell",
    "resourceTemplateGeneration",
    "selector",
    "templateReplicas",
];

/// Longest message of a row, in characters. A message can contain the error of an API server.
const MESSAGE_MAX: usize = 512;

/// A cell of a WorkloadDeployment.
#[derive(Debug, PartialEq)]
pub(super) struct Cell {
    /// `None` while no cell is known.
    pub(super) name: Option<String>,
    pub(super) state: RowState,
    /// Why the state is not `Reported`.
    pub(super) why: Option<Why>,
    /// The last report of the cell. `null` if there is none, or if the query does not read it.
    pub(super) status: Value,
}

/// Why a cell does not say what runs there.
#[derive(Debug, PartialEq)]
pub(super) struct Why {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) since: Time,
}

/// Karmada's `AggregatedStatusItem`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    cluster_name: String,
    status: Option<Value>,
    #[serde(default)]
    applied: bool,
    #[serde(default)]
    applied_message: String,
}

/// Returns the cells that are expected to run a WorkloadDeployment, and those that still do.
pub(super) fn cells(
    deployment: &ObservedDeployment,
    query: &Query,
    observed: &Observed<'_>,
    former: &FormerCells<'_>,
    work: &mut Work,
) -> Vec<Cell> {
    let since = Since {
        former,
        deployment: &deployment.deployment.metadata,
        now: observed.now,
    };
    let nowhere_yet = |reason, message: &str, known| {
        let state = RowState::NotPlaced;
        vec![since.without_cell(state, reason, message, known)]
    };
    let (copy, binding) = match &deployment.copy {
        HubCopy::NotKnown(message) => {
            let reason = row_reason::CELLS_NOT_KNOWN;
            return vec![since.without_cell(RowState::Unknown, reason, message, None)];
        }
        HubCopy::Absent => {
            let message = "the hub does not have the WorkloadDeployment yet";
            let created = created(&deployment.deployment);
            return nowhere_yet(row_reason::NOT_ON_HUB, message, created);
        }
        HubCopy::Present(copy, binding) => (copy, binding),
    };
    let not_scheduled = "no cell has been selected yet";
    let Some(binding) = binding else {
        return nowhere_yet(row_reason::NOT_SCHEDULED, not_scheduled, created(copy));
    };
    let mut items = items(binding, work);
    let targets = binding.spec.clusters.iter().map(|it| it.name.clone());
    let mut names = targets.map(|name| (name, true)).collect::<BTreeMap<_, _>>();
    for name in items.keys() {
        names.entry(name.clone()).or_insert(false);
    }
    let nowhere = nowhere(binding).map(|(decided, message)| {
        let (state, reason) = (RowState::NotPlaced, row_reason::NO_MATCHING_CELL);
        since.without_cell(state, reason, message, Some(decided))
    });
    if names.is_empty() && nowhere.is_none() {
        let created = binding.metadata.creation_timestamp.as_ref();
        let created = created.map(|time| time.0);
        return nowhere_yet(row_reason::NOT_SCHEDULED, not_scheduled, created);
    }
    let reads_status = query.reads("status");
    let cell = |name: String, (state, why): Standing, status: Option<Value>| {
        let why = why
            .map(|(reason, message, known)| since.why(Some(&name), state, reason, &message, known));
        Cell {
            name: Some(name),
            state,
            why,
            status: status
                .filter(|_| reads_status)
                .map(shown)
                .unwrap_or_default(),
        }
    };
    let mut cells: Vec<_> = nowhere.into_iter().collect();
    let memory = Memory::of(copy);
    // Cells that are no longer selected can still have the WorkloadDeployment.
    for (name, is_selected) in names {
        let item = items.remove(&name);
        let standing = standing(&name, item.as_ref(), is_selected, observed);
        let report = item.as_ref().and_then(Item::report);
        let is_lower_hub = (observed.cells.is_lower_hub)(&name);
        let report = report.filter(|_| is_lower_hub);
        let mut cells_below = report
            .map(|report| below::reported(&name, report))
            .unwrap_or_default();
        let problem = report.and_then(|report| Problem::of(&name, report));
        let of_problem = problem.as_ref().map(|problem| match &standing {
            (RowState::Unreachable, _) => standing.clone(),
            _ => {
                let why = (problem.reason, problem.message.clone(), None);
                (RowState::NotReported, Some(why))
            }
        });
        let is_remembered = cells_below.is_empty() && is_lower_hub;
        if is_remembered {
            cells_below = memory.below(&name);
        }
        if cells_below.is_empty() && problem.is_none() {
            let status = item.and_then(Item::into_report);
            let status = status.or_else(|| reads_status.then(|| memory.report(&name))?);
            cells.push(cell(name, standing, status));
            continue;
        }
        let is_of = |below: &str| {
            let problem = problem.as_ref();
            is_remembered || problem.is_some_and(|it| it.named.concerns(below))
        };
        let rows = cells_below.into_iter().map(|(below, status)| {
            let of_cell = of_problem.as_ref().filter(|_| is_of(&below));
            let standing = standing_below(&name, &below, of_cell.unwrap_or(&standing), observed);
            cell(below, standing, Some(status))
        });
        cells.extend(rows);
        cells.extend(of_problem.map(|problem| cell(name, problem, None)));
    }
    cells
}

/// Returns whether a cell below a lower hub says what runs there. `standing` is that of the lower hub.
fn standing_below(
    lower_hub: &str,
    cell: &str,
    standing: &Standing,
    observed: &Observed<'_>,
) -> Standing {
    if standing.0 == RowState::Unreachable {
        return standing.clone();
    }
    if let CellState::Unreachable { since, message } = (observed.cells.state)(cell) {
        let why = (row_reason::CELL_UNREACHABLE, message, since);
        return (RowState::Unreachable, Some(why));
    }
    let silent = (observed.cells.silent)(lower_hub).into_iter();
    let above = silent.filter(|it| cell == it.name || is_below(cell, &it.name));
    match above.min_by_key(|it| it.since.0) {
        Some(SilentLowerHub { name, since }) if standing.0 != RowState::NotReported => {
            let message = format!("the process of lower hub {name} is silent");
            let why = (row_reason::LOWER_HUB_SILENT, message, Some(since.0));
            (RowState::Unknown, Some(why))
        }
        _ => standing.clone(),
    }
}

/// Reason, message and, if it is known, time.
type Reason = (&'static str, String, Option<Timestamp>);
/// Whether a cell says what runs there, and why not.
type Standing = (RowState, Option<Reason>);

/// Returns whether a cell says what runs there, and why not.
fn standing(
    name: &str,
    item: Option<&Item>,
    is_selected: bool,
    observed: &Observed<'_>,
) -> Standing {
    if let CellState::Unreachable { since, message } = (observed.cells.state)(name) {
        let why = (row_reason::CELL_UNREACHABLE, message, since);
        return (RowState::Unreachable, Some(why));
    }
    let silent = |reason, message: &str| {
        let why = (reason, message.to_owned(), None);
        (RowState::NotReported, Some(why))
    };
    match item {
        Some(item) if item.applied && item.report().is_some() => match is_selected {
            true => (RowState::Reported, None),
            false => {
                let message =
                    "the cell is no longer selected, and still has the WorkloadDeployment";
                let why = (row_reason::NO_LONGER_SELECTED, message.to_owned(), None);
                (RowState::Leaving, Some(why))
            }
        },
        Some(item) if item.applied => silent(
            row_reason::CELL_NOT_REPORTED,
            "the cell has not reported a status",
        ),
        item => {
            let message = item.map_or("", |item| item.applied_message.as_str());
            silent(row_reason::CELL_NOT_APPLIED, message)
        }
    }
}

impl Item {
    /// Returns the report, unless it is empty.
    fn report(&self) -> Option<&Value> {
        let report = self.status.as_ref();
        report.filter(|it| it.as_object().is_some_and(|fields| !fields.is_empty()))
    }

    fn into_report(self) -> Option<Value> {
        self.report()?;
        self.status
    }
}

/// Returns the items of a binding by cell. Items that cannot be decoded are left out, as if the cell did not report. Of
/// several items of a cell, the first with a report counts.
fn items(binding: &ResourceBinding, work: &mut Work) -> BTreeMap<String, Item> {
    let mut items = BTreeMap::<String, Item>::new();
    let status = binding.status.as_ref();
    let Some(text) = status.and_then(|status| status.aggregated_status.as_ref()) else {
        return items;
    };
    work.add_text(text.get().len());
    let list = decode::for_each_of(text.get(), |item: &RawValue| {
        let Ok(item) = decode::from_str::<Item>(item.get()) else {
            return;
        };
        let known = items.get(&item.cluster_name);
        if known.is_none_or(|known| known.report().is_none()) && !item.cluster_name.is_empty() {
            items.insert(item.cluster_name.clone(), item);
        }
    });
    match list {
        Ok(()) => items,
        Err(_) => BTreeMap::new(),
    }
}

/// Returns the status of a cell as a customer may see it: without the fields that help to compute the status of the copy,
/// and without those that are about the object in the cell or on the hub, such as its generation.
fn shown(mut status: Value) -> Value {
    let Some(fields) = status.as_object_mut() else {
        return status;
    };
    for hidden in HIDDEN {
        fields.remove(hidden);
    }
    let conditions = fields.get_mut("conditions").and_then(Value::as_array_mut);
    if let Some(conditions) = conditions {
        // The project has such a condition of its own.
        conditions
            .retain(|it| it.get("type").and_then(Value::as_str) != Some(REFERENCED_DATA_READY));
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove(OBSERVED_GENERATION);
        }
    }
    status
}

fn created(deployment: &WorkloadDeployment) -> Option<Timestamp> {
    let created = deployment.metadata.creation_timestamp.as_ref()?;
    Some(created.0)
}

/// The rows of the last evaluation, by WorkloadDeployment and cell.
pub(super) type FormerCells<'a> = BTreeMap<(&'a str, Option<&'a str>), &'a SummaryRow>;

/// Returns the rows of the last evaluation by WorkloadDeployment and cell.
pub(super) fn former_cells(rows: &[SummaryRow]) -> FormerCells<'_> {
    let rows = rows.iter();
    rows.map(|row| ((row.deployment.as_str(), row.cell.as_deref()), row))
        .collect()
}

/// Finds out since when a reason holds.
struct Since<'a> {
    former: &'a FormerCells<'a>,
    deployment: &'a ObjectMeta,
    now: Timestamp,
}

impl Since<'_> {
    /// Returns the reason with its time. If the time is not known, it is the time at which the reason was seen first.
    fn why(
        &self,
        cell: Option<&str>,
        state: RowState,
        reason: &'static str,
        message: &str,
        known: Option<Timestamp>,
    ) -> Why {
        let former = || {
            let row = self.former.get(&(self.deployment.name.as_deref()?, cell))?;
            let is_same = row.state == Some(state) && row.reason.as_deref() == Some(reason);
            row.since.as_ref().filter(|_| is_same).map(|since| since.0)
        };
        let since = known.or_else(former).unwrap_or(self.now);
        // A cell can be unreachable for longer than the WorkloadDeployment exists.
        let created = self.deployment.creation_timestamp.as_ref();
        let since = created.map_or(since, |created| since.max(created.0));
        // `metav1.Time` has whole seconds.
        let whole = Timestamp::from_second(since.as_second()).unwrap_or(since);
        Why {
            reason,
            message: message.chars().take(MESSAGE_MAX).collect(),
            since: Time(whole),
        }
    }

    fn without_cell(
        &self,
        state: RowState,
        reason: &'static str,
        message: &str,
        known: Option<Timestamp>,
    ) -> Cell {
        Cell {
            name: None,
            state,
            why: Some(self.why(None, state, reason, message, known)),
            status: Value::Null,
        }
    }
}
