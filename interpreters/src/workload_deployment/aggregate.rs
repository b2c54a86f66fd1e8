//! `AggregateStatus`: the status of the hub object from what its cells report.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::WorkloadDeployment;
use crate::InterpretError;
use crate::fold::{Item, Report, StatusFold, Template};
use crate::patch::Patch;
use crate::raw::parse;
use crate::review::{Outcome, Request};

/// The fold over all items, rendered once. No items, or a status that says the same, give no patch.
pub(crate) fn aggregate(
    mut deployment: WorkloadDeployment<'_, Report<'_>>,
    items: Vec<Item<'_>>,
    now: Timestamp,
) -> Outcome {
    let former = deployment.status.take().and_then(Report::checked);
    let change =
        StatusFold::from_iter(items).change_of(&template(&deployment), former.as_ref(), now);
    patch(change)
}

/// The same where not everything in the request can be read as what it should be.
pub(crate) fn aggregate_text(
    request: &Request<'_>,
    now: Timestamp,
) -> Result<Outcome, InterpretError> {
    let deployment: WorkloadDeployment<'_> = parse("request.object", request.object()?)?;
    let template = Template {
        status: deployment.status.map(RawValue::get),
        ..template(&deployment)
    };
    let fold = StatusFold::of_items(request.aggregated_status())
        .map_err(|error| InterpretError::new("request.aggregatedStatus", error))?;
    Ok(patch(fold.change(&template, now)))
}

fn template<S>(deployment: &WorkloadDeployment<'_, S>) -> Template<'static> {
    Template {
        generation: deployment.metadata.generation,
        min_replicas: deployment.spec.scale_settings.min_replicas,
        replicas: deployment.spec.replicas,
        status: None,
    }
}

fn patch(status: Option<Box<RawValue>>) -> Outcome {
    let mut patch = Patch::default();
    if let Some(status) = status {
        patch.add("/status", status);
    }
    Outcome::Patch(patch)
}
