//! `AggregateStatus`: computes the status of the hub object from the reports of its cells.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::view::DeploymentView;
use crate::error::InterpretError;
use crate::fold::{ResourceTemplate, StatusFold, StatusView};
use crate::patch::Patch;

/// Sets the status to the rendered fold. Returns no patch if there are no items or the status would not change.
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
        fold.write_change(&template, former, now, out)
    });
    patch
}
