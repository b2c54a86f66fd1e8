//! Fast decoding of Instances. The object is decoded together with the envelope of the request.

use super::cursor::{Cursor, NotCanonical};
use super::request::FastRequest;
use crate::error::InterpretError;
use crate::instance::{InstanceView, interpret_parts};
use crate::review::OperationOutcome;

/// Answers a request. The outer error is [`NotCanonical`]. The inner error is an answer to the request.
pub(super) fn interpret(
    request: FastRequest<'_>,
) -> Result<Result<OperationOutcome<'_>, InterpretError>, NotCanonical> {
    let operation = request.operation;
    let payload = request
        .read_with::<InstanceView<'_>, _, InstanceView<'_>>(Cursor::value, |cursor, _| {
            cursor.value()
        })?;
    let observed = || {
        let observed = payload.observed_object;
        observed.ok_or_else(|| InterpretError::missing("request.observedObject"))
    };
    let reports = || Ok(payload.aggregated_status.unwrap_or_default());
    Ok(interpret_parts(
        operation,
        payload.object,
        observed,
        reports,
    ))
}
