//! `AggregateStatus`: the status of the hub object from what its cells report.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{Metadata, Spec, WorkloadDeployment};
use crate::InterpretError;
use crate::cursor::{Cursor, OtherForm};
use crate::fold::{Report, StatusFold, Template};
use crate::patch::Patch;
use crate::review::Outcome;

impl<'a> WorkloadDeployment<'a, Report<'a>> {
    /// Reads an object whose fields are sorted, as Karmada sends it.
    pub(super) fn with_report(cursor: &mut Cursor<'a>) -> Result<Self, OtherForm> {
        cursor.open()?;
        if cursor.field(br#""apiVersion":"#) {
            cursor.text()?;
        }
        if cursor.field(br#""kind":"#) {
            cursor.text()?;
        }
        let metadata = match cursor.field(br#""metadata":"#) {
            true => cursor.value()?,
            false => Metadata::default(),
        };
        let spec = match cursor.field(br#""spec":"#) {
            true => cursor.value()?,
            false => Spec::default(),
        };
        let status = match cursor.field(br#""status":"#) {
            true => Report::read(cursor)?,
            false => None,
        };
        cursor.close()?;
        Ok(Self {
            metadata,
            spec,
            status,
        })
    }

    /// How many cells the status remembers.
    pub(super) fn remembered(&self) -> usize {
        self.status.as_ref().map_or(0, Report::remembered)
    }
}

/// The fold over all items, rendered once. No items, or a status that says the same, give no patch.
pub(super) fn of_fold(
    mut deployment: WorkloadDeployment<'_, Report<'_>>,
    fold: &StatusFold<'_>,
    now: Timestamp,
) -> Outcome {
    let former = deployment.status.take();
    patch(fold, &template(&deployment), former.as_ref(), now)
}

/// The same where not everything in the request is written as usual.
pub(super) fn of_text(
    deployment: &WorkloadDeployment<'_>,
    items: &str,
    now: Timestamp,
) -> Result<Outcome, InterpretError> {
    let former = deployment.status.map(RawValue::get).and_then(Report::parse);
    let fold = StatusFold::of_items(items)
        .map_err(|error| InterpretError::new("request.aggregatedStatus", error))?;
    Ok(patch(&fold, &template(deployment), former.as_ref(), now))
}

fn template<S>(deployment: &WorkloadDeployment<'_, S>) -> Template<'static> {
    Template {
        generation: deployment.metadata.generation,
        min_replicas: deployment.spec.scale_settings.min_replicas,
        replicas: deployment.spec.replicas,
        status: None,
        shown: &[],
    }
}

fn patch<'a>(
    fold: &StatusFold<'a>,
    template: &Template<'a>,
    former: Option<&Report<'a>>,
    now: Timestamp,
) -> Outcome {
    let mut patch = Patch::default();
    patch.add_written("/status", |out| {
        fold.write_change(template, former, now, out)
    });
    Outcome::Patch(patch)
}
