//! Adds the state of the cells to a project's status. The hub's status does not contain these facts: a cell is
//! unreachable, a cell does not have the object yet, or no cell matches (docs/concepts/status.md).

use std::collections::BTreeSet;

use api::condition::{self, ConditionStatus, MESSAGE_MAX};
use api::identity::cluster_of;
use api::karmada::ResourceBinding;
use api::lower_hub::SilentLowerHub;
use api::reasons::workload_deployment::LOWER_HUB_SILENT;
use api::workload_deployment::CELLS_REPORTING;
use api::{Condition, WorkloadDeployment, WorkloadDeploymentStatus};
use interpreters::fold::{ResourceTemplate, StatusFold, Unreachable, no_matching_cell};
use jiff::Timestamp;

use crate::hub::cells::{CellState, CopyCells, nowhere};

/// Returns the status of the copy with the state of its cells added. Returns `None` if the hub's status needs no
/// addition. `shown` contains the current conditions of the project's WorkloadDeployment.
pub(super) fn fresh(
    copy: &WorkloadDeployment,
    cells: CopyCells<'_>,
    shown: &[Condition],
    now: Timestamp,
) -> Option<WorkloadDeploymentStatus> {
    let binding = cells.binding?;
    let hub = copy.status.as_ref().map(serde_json::to_string);
    let hub = hub.transpose().ok()?;
    let template = ResourceTemplate {
        generation: copy.metadata.generation,
        min_replicas: Some(copy.spec.scale_settings.min_replicas),
        replicas: copy.spec.replicas,
        status: hub.as_deref(),
        shown,
    };
    let read = |text: Option<String>| serde_json::from_str(&text?).ok();
    if let Some((since, message)) = nowhere(binding) {
        return read(no_matching_cell(&template, since, message));
    }
    let known = CellReports::of(copy, binding, cells.state, shown, now);
    // Before the first cell has reported, a missing report is normal.
    let adds = known.is_marked || known.is_missing && hub.is_some();
    let rendered = read(adds.then(|| known.fold.render(&template, now)).flatten());
    match silence(known.fold.cells(), cells.silent) {
        None => rendered,
        Some(silence) => Some(with_silence(
            rendered.or_else(|| copy.status.clone())?,
            silence,
        )),
    }
}

/// Returns the condition that says of which lower hubs the cells below are not known. Returns `None` if there are none.
fn silence<'c>(
    clusters: impl Iterator<Item = &'c str>,
    silent: &dyn Fn(&str) -> Vec<SilentLowerHub>,
) -> Option<Condition> {
    let silent: Vec<_> = clusters.flat_map(silent).collect();
    let since = silent.iter().map(|it| it.since.0).min()?;
    let sentences = silent.iter().map(|SilentLowerHub { name, since }| {
        let since = since.0;
        format!("{name}: since {since:.0} it is not known whether its cells are reachable, because its process is silent")
    });
    let message = sentences.collect::<Vec<_>>().join("; ");
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let unknown = ConditionStatus::Unknown;
    Some(Condition::new(
        CELLS_REPORTING,
        unknown,
        LOWER_HUB_SILENT,
        message,
        since,
    ))
}

/// Adds that cells are not known. Nothing else changes, because a cell whose state is not known may report. What is known
/// of a cell that does not report is more important.
fn with_silence(
    mut status: WorkloadDeploymentStatus,
    silence: Condition,
) -> WorkloadDeploymentStatus {
    if condition::find(&status.conditions, CELLS_REPORTING).is_none() {
        status.conditions.push(silence);
    }
    status
}

/// The reports of the cells, with the unreachable cells marked.
struct CellReports<'a> {
    fold: StatusFold<'a>,
    /// Whether a cell is unreachable.
    is_marked: bool,
    /// Whether a cell that must receive the object has not reported.
    is_missing: bool,
}

impl<'a> CellReports<'a> {
    fn of(
        copy: &WorkloadDeployment,
        binding: &'a ResourceBinding,
        state: &dyn Fn(&str) -> CellState,
        shown: &[Condition],
        now: Timestamp,
    ) -> Self {
        let items = binding.status.as_ref();
        let items = items.and_then(|status| status.aggregated_status.as_ref());
        let mut fold = items
            .and_then(|items| StatusFold::of_items(items.get()).ok())
            .unwrap_or_default();
        let named = fold.cells().count();
        let targets = binding.spec.clusters.iter();
        fold.expect(targets.map(|target| target.name.as_str()));
        // A cell that is no longer a target still counts until the object is gone from it.
        let cells: Vec<_> = fold.cells().map(str::to_owned).collect();
        let is_missing = cells.len() > named;
        let mark = |cell: String| match state(&cell) {
            CellState::Reachable => None,
            CellState::Unreachable { since, message } => {
                let since = since.or_else(|| shown_since(shown)).unwrap_or(now);
                let message = message.into();
                Some((cell, Unreachable { since, message }))
            }
        };
        let mut marks: Vec<_> = cells.into_iter().filter_map(mark).collect();
        // The mark of a lower hub is also one of each cell below it.
        let clusters: BTreeSet<_> = marks.iter().map(|(cluster, _)| cluster.clone()).collect();
        let former = copy.status.as_ref();
        let several = former.map_or(&[][..], |status| &status.cells).iter();
        let remembered = several.map(|cell| cell.name.as_str());
        let remembered = remembered.chain(former.and_then(|it| it.reporting_cell.as_deref()));
        let below = fold.cells_below(&remembered).into_iter();
        let below = below.filter(|cell| !clusters.contains(cluster_of(cell)));
        marks.extend(below.filter_map(mark));
        let is_marked = !marks.is_empty();
        fold.mark_unreachable(marks);
        Self {
            fold,
            is_marked,
            is_missing,
        }
    }
}

/// Returns since when the project's status shows that some cells do not report.
fn shown_since(shown: &[Condition]) -> Option<Timestamp> {
    let reporting = condition::find(shown, CELLS_REPORTING)?;
    reporting
        .is_false()
        .then_some(reporting.last_transition_time.0)
}
