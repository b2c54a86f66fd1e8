//! What the hub's status does not say: that a cell cannot be reached, that one has not got the object yet, or that there
//! is none at all. Only the project reads it (architecture.md 5).

use api::condition::{self, ConditionStatus};
use api::karmada::ResourceBinding;
use api::karmada::binding::{NO_CLUSTER_FIT, SCHEDULED};
use api::workload_deployment::CELLS_REPORTING;
use api::{Condition, WorkloadDeployment, WorkloadDeploymentStatus};
use interpreters::fold::{ResourceTemplate, StatusFold, Unreachable, no_matching_cell};
use jiff::Timestamp;

use crate::hub::cells::{CellState, CopyCells};

/// The status of the copy with what is known of its cells; nothing where the hub's status says it all. `shown` are the
/// conditions that the project shows already.
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
    let text = match nowhere(binding) {
        Some((since, message)) => no_matching_cell(&template, since, message),
        None => {
            let known = CellReports::of(binding, cells.state, shown, now);
            // Before any cell has reported, it is no news that the object is on its way.
            let adds = known.is_marked || known.is_missing && hub.is_some();
            adds.then(|| known.fold.render(&template, now)).flatten()
        }
    };
    serde_json::from_str(&text?).ok()
}

/// Since when, and why, no cell is meant to have the object, where the scheduler has said so. While it has not, as of a
/// binding that has just been made, no targets prove nothing.
fn nowhere(binding: &ResourceBinding) -> Option<(Timestamp, &str)> {
    let status = binding.status.as_ref()?;
    let scheduled = condition::find(&status.conditions, SCHEDULED)?;
    // The generation is only noted where scheduling succeeds; targets are removed before it is said that none fits.
    let is_said = match scheduled.status {
        ConditionStatus::False => scheduled.reason == NO_CLUSTER_FIT,
        ConditionStatus::True => {
            status.scheduler_observed_generation.is_some()
                && status.scheduler_observed_generation == binding.metadata.generation
        }
        ConditionStatus::Unknown => false,
    };
    (is_said && binding.spec.clusters.is_empty())
        .then_some((scheduled.last_transition_time.0, scheduled.message.as_str()))
}

/// What the cells say, and what is known of them.
struct CellReports<'a> {
    fold: StatusFold<'a>,
    /// Whether one of them cannot be reached.
    is_marked: bool,
    /// Whether there is no word of one that the object goes to.
    is_missing: bool,
}

impl<'a> CellReports<'a> {
    fn of(
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
        for target in &binding.spec.clusters {
            fold.expect(target.name.as_str());
        }
        // Also one that the object leaves: it counts until it has left.
        let cells: Vec<_> = fold.cells().map(str::to_owned).collect();
        let is_missing = cells.len() > named;
        let mut is_marked = false;
        for cell in cells {
            if let CellState::Unreachable { since, message } = state(&cell) {
                let since = since.or_else(|| shown_since(shown)).unwrap_or(now);
                let message = message.into();
                fold.mark_unreachable(cell, Unreachable { since, message });
                is_marked = true;
            }
        }
        Self {
            fold,
            is_marked,
            is_missing,
        }
    }
}

/// Since when it is shown that cells are not reporting.
fn shown_since(shown: &[Condition]) -> Option<Timestamp> {
    let reporting = condition::find(shown, CELLS_REPORTING)?;
    reporting
        .is_false()
        .then_some(reporting.last_transition_time.0)
}
