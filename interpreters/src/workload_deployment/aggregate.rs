//! `AggregateStatus`: computes the status of the hub object from the reports of its cells.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::view::DeploymentView;
use crate::error::InterpretError;
use crate::fold::{ResourceTemplate, StatusFold, StatusView, without_reports};
use crate::patch::Patch;

/// Sets the status to the rendered fold. Returns no patch if the status would not change. Without any item, it changes
/// only if the object is on a lower hub and had items before.
pub(crate) fn aggregate_status<'a>(
    deployment: &DeploymentView<'a, StatusView<'a>>,
    fold: &StatusFold<'a>,
    now: Timestamp,
) -> Patch {
    patch(deployment, deployment.status.as_ref(), fold, now)
}

/// Calls [`aggregate_status`] with a status and items in any JSON form.
pub(super) fn of_text(
    deployment: &DeploymentView<'_>,
    items: &str,
    now: Timestamp,
) -> Result<Patch, InterpretError> {
    let former = deployment
        .status
        .map(RawValue::get)
        .and_then(StatusView::parse);
    let fold = StatusFold::of_items(items)
        .map_err(|error| InterpretError::new("request.aggregatedStatus", error))?;
    Ok(patch(deployment, former.as_ref(), &fold, now))
}

fn patch<'a, S>(
    deployment: &DeploymentView<'_, S>,
    former: Option<&StatusView<'a>>,
    fold: &StatusFold<'a>,
    now: Timestamp,
) -> Patch {
    let template = ResourceTemplate {
        generation: deployment.metadata.generation,
        min_replicas: deployment.spec.scale_settings.min_replicas,
        replicas: deployment.spec.replicas,
        status: None,
        shown: &[],
    };
    let mut patch = Patch::default();
    patch.add_written("/status", |out| {
        match former.filter(|_| has_no_report(deployment, fold)) {
            Some(former) => without_reports(former, now, out),
            None => fold.write_change(&template, former, now, out),
        }
    });
    patch
}

/// Returns whether Karmada has no item of an object that an upper hub has put here. On the hub, the management process
/// reads why there is none.
fn has_no_report<S>(deployment: &DeploymentView<'_, S>, fold: &StatusFold<'_>) -> bool {
    let metadata = &deployment.metadata;
    fold.cells().next().is_none()
        && metadata.deletion_timestamp.is_none()
        && metadata
            .annotations
            .resource_template_generation()
            .is_some()
}
