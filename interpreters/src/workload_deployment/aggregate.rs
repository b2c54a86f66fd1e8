//! `AggregateStatus`: the status of the hub object from what its cells report.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::WorkloadDeployment;
use crate::InterpretError;
use crate::fold::{StatusFold, Template};
use crate::patch::Patch;
use crate::raw::same;

/// The fold over all items, rendered once. No items, or a status that says the same, give no patch.
pub(super) fn status(
    deployment: &WorkloadDeployment<'_>,
    items: &[&RawValue],
    now: Timestamp,
) -> Result<Patch, InterpretError> {
    let former = deployment.status.map(RawValue::get);
    let template = Template {
        generation: deployment.metadata.generation,
        min_replicas: deployment.spec.scale_settings.min_replicas,
        replicas: deployment.spec.replicas,
        status: former,
    };
    let fold = items
        .iter()
        .map(|item| StatusFold::of_item(item))
        .fold(StatusFold::default(), StatusFold::merge);
    let mut patch = Patch::default();
    if let Some(status) = fold.render(&template, now)
        && !former.is_some_and(|former| same(former, &status))
    {
        let status =
            RawValue::from_string(status).map_err(|error| InterpretError::new("status", error))?;
        patch.add("/status", status);
    }
    Ok(patch)
}
