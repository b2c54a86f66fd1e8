//! `AggregateStatus`: the status of the hub object from what its cells report.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::WorkloadDeployment;
use crate::InterpretError;
use crate::fold::{StatusFold, Template};
use crate::patch::Patch;

/// The fold over all items, rendered once. No items, or a status that says the same, give no patch.
pub(super) fn status(
    deployment: &WorkloadDeployment<'_>,
    items: &str,
    now: Timestamp,
) -> Result<Patch, InterpretError> {
    let template = Template {
        generation: deployment.metadata.generation,
        min_replicas: deployment.spec.scale_settings.min_replicas,
        replicas: deployment.spec.replicas,
        status: deployment.status.map(RawValue::get),
    };
    let fold = StatusFold::of_items(items)
        .map_err(|error| InterpretError::new("request.aggregatedStatus", error))?;
    let mut patch = Patch::default();
    if let Some(status) = fold.change(&template, now) {
        patch.add("/status", status);
    }
    Ok(patch)
}
