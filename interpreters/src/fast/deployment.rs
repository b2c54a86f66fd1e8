//! Fast decoding of WorkloadDeployments. Each operation decodes the object. Other parts of the request are decoded
//! only if the operation needs these parts.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::cursor::{Cursor, NotCanonical};
use super::request::FastRequest;
use super::status;
use crate::error::InterpretError;
use crate::fold::{StatusFold, StatusView};
use crate::review::{Operation, OperationOutcome};
use crate::workload_deployment::{
    DeploymentView, DesiredStatus, HealthStatus, InstanceTemplateView, aggregate_status,
    interpret_component, interpret_dependency, interpret_health, interpret_replica,
    interpret_status, retain, revise_replica,
};

type SpecOnly<'a> = DeploymentView<'a, IgnoredAny, IgnoredAny>;
type WithTemplate<'a, S> = DeploymentView<'a, IgnoredAny, InstanceTemplateView<S>>;
type WithDesired<'a> = DeploymentView<'a, DesiredStatus, IgnoredAny>;
type WithConditions<'a> = DeploymentView<'a, HealthStatus, IgnoredAny>;

/// Answers a request. The outer error is [`NotCanonical`]. The inner error is an answer to the request.
pub(super) fn interpret(
    request: FastRequest<'_>,
    now: Timestamp,
) -> Result<Result<OperationOutcome<'_>, InterpretError>, NotCanonical> {
    Ok(match request.operation {
        Operation::InterpretReplica => {
            let (deployment, spec) = with_instance_spec(request)?;
            interpret_replica(&deployment, || Ok(spec))
        }
        Operation::InterpretComponent => {
            let (deployment, spec) = with_instance_spec(request)?;
            interpret_component(&deployment, || Ok(spec))
        }
        Operation::InterpretDependency => {
            let (deployment, spec) = with_instance_spec(request)?;
            interpret_dependency(deployment.metadata, spec)
        }
        Operation::InterpretHealth => {
            let mut deployment: WithConditions<'_> = request.read::<_, IgnoredAny>()?.object;
            let status = deployment.status.take();
            interpret_health(&deployment, || Ok(status)).map(OperationOutcome::Health)
        }
        Operation::Retain => {
            let payload = request.read::<SpecOnly<'_>, SpecOnly<'_>>()?;
            let observed = payload.observed_object.ok_or(NotCanonical)?;
            Ok(OperationOutcome::Patch(retain(&payload.object, &observed)))
        }
        Operation::ReviseReplica => {
            let mut payload = request.read::<WithDesired<'_>, IgnoredAny>()?;
            let status = payload.object.status.take();
            revise_replica(&payload.object, payload.replicas, || status)
                .map(OperationOutcome::Patch)
        }
        Operation::InterpretStatus => {
            let deployment: DeploymentView<'_> = request.read::<_, IgnoredAny>()?.object;
            interpret_status(&deployment).map(|status| OperationOutcome::Status(status.into()))
        }
        Operation::AggregateStatus => {
            let payload =
                request.read_with::<_, _, IgnoredAny>(with_status, |cursor, object| {
                    let expected = object.status.as_ref().map_or(0, |s| s.cells().len());
                    status::items(cursor, expected)
                })?;
            let fold: StatusFold<'_> = payload.aggregated_status.unwrap_or_default();
            let patch = aggregate_status(&payload.object, &fold, now);
            Ok(OperationOutcome::Patch(patch))
        }
    })
}

/// Reads the object together with the instance spec of its template.
fn with_instance_spec<'a, S: Default + Deserialize<'a>>(
    request: FastRequest<'a>,
) -> Result<(WithTemplate<'a, S>, S), NotCanonical> {
    let mut deployment: WithTemplate<'a, S> = request.read::<_, IgnoredAny>()?.object;
    let template = deployment.spec.template.take().unwrap_or_default();
    Ok((deployment, template.spec))
}

/// Reads an object together with its status. The fields must be sorted, because Karmada writes sorted fields.
fn with_status<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<DeploymentView<'a, StatusView<'a>>, NotCanonical> {
    cursor.open()?;
    if cursor.field(r#""apiVersion":"#) {
        cursor.text()?;
    }
    if cursor.field(r#""kind":"#) {
        cursor.text()?;
    }
    let metadata = cursor.optional_value(r#""metadata":"#)?;
    let spec = cursor.optional_value(r#""spec":"#)?;
    let status = match cursor.field(r#""status":"#) {
        true => status::former(cursor)?,
        false => None,
    };
    cursor.close()?;
    Ok(DeploymentView {
        metadata: metadata.unwrap_or_default(),
        spec: spec.unwrap_or_default(),
        status,
    })
}
