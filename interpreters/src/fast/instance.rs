//! Fast decoding of Instances. The object is decoded together with the envelope of the request.

use serde::de::IgnoredAny;

use super::cursor::{Cursor, NotCanonical};
use super::request::FastRequest;
use crate::error::InterpretError;
use crate::instance::{
    InstanceReports, InstanceView, SpecWithController, aggregate_status, interpret_component,
    interpret_dependency, interpret_health, interpret_replica, interpret_status, retain,
    revise_replica,
};
use crate::review::{Operation, OperationOutcome};

/// Answers a request. The outer error is [`NotCanonical`]. The inner error is an answer to the request.
pub(super) fn interpret(
    request: FastRequest<'_>,
) -> Result<Result<OperationOutcome<'_>, InterpretError>, NotCanonical> {
    Ok(match request.operation {
        Operation::InterpretReplica => interpret_replica(request.read::<_, IgnoredAny>()?.object),
        Operation::InterpretComponent => {
            interpret_component(request.read::<_, IgnoredAny>()?.object)
        }
        Operation::ReviseReplica => {
            let instance = request.read::<_, IgnoredAny>()?.object;
            Ok(OperationOutcome::Patch(revise_replica(&instance)))
        }
        Operation::Retain => {
            type View<'a> = InstanceView<'a, SpecWithController<'a>>;
            let payload = request.read::<View<'_>, View<'_>>()?;
            let observed = payload.observed_object.ok_or(NotCanonical)?;
            Ok(OperationOutcome::Patch(retain(&payload.object, &observed)))
        }
        Operation::AggregateStatus => {
            let payload =
                request.read_with::<_, _, IgnoredAny>(Cursor::value, |cursor, _| cursor.value())?;
            let reports: InstanceReports<'_> = payload.aggregated_status.unwrap_or_default();
            let patch = aggregate_status(&payload.object, &reports);
            Ok(OperationOutcome::Patch(patch))
        }
        Operation::InterpretDependency => {
            interpret_dependency(request.read::<_, IgnoredAny>()?.object)
        }
        Operation::InterpretStatus => {
            let instance = request.read::<_, IgnoredAny>()?.object;
            let status = interpret_status(&instance);
            Ok(OperationOutcome::Status(status.into()))
        }
        Operation::InterpretHealth => {
            let instance = request.read::<_, IgnoredAny>()?.object;
            Ok(OperationOutcome::Health(interpret_health(&instance)))
        }
    })
}
