//! Karmada's resource interpreter for WorkloadDeployment and Instance.
//!
//! A request comes in as bytes and its answer goes out as bytes ([`interpret`]); there is no I/O, no clock and no state
//! in between. One module per kind, one function per operation. What Karmada sends and expects is in [`review`], the
//! semantics of each operation beside the function that has it.
//!
//! [`fold`] joins what several cells report about one WorkloadDeployment.

mod dependencies;
mod error;
pub mod fold;
mod instance;
mod patch;
mod raw;
mod requirements;
pub mod review;
mod template;
#[cfg(test)]
mod tests;
mod workload_deployment;

use jiff::Timestamp;
use serde::Deserialize;

pub use error::InterpretError;
pub use review::{Interpretation, Kind, MalformedReview, Operation};

use fold::{Item, Report};
use instance::Instance;
use review::{Outcome, Request};
use workload_deployment::WorkloadDeployment;

/// Answers one `ResourceInterpreterContext` (karmada.md 1).
///
/// `now` is only used for a condition that begins with this call.
///
/// # Errors
///
/// [`MalformedReview`] when `body` is no request that could be answered in its own protocol: it is not JSON, or has no
/// `request.uid`. Every other failure is an answer with `successful: false`.
pub fn interpret(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    if let Some(interpretation) = in_one_pass(body, now) {
        return Ok(interpretation);
    }
    // Step by step: what is wrong is found where it is.
    let request: Request<'_> = review::decode(body)?;
    let outcome = answer(&request, now);
    Ok(review::encode(&request, outcome))
}

fn answer(request: &Request<'_>, now: Timestamp) -> Result<Outcome, InterpretError> {
    let operation = request.operation()?;
    match request.kind()? {
        Kind::WorkloadDeployment if operation == Operation::AggregateStatus => {
            workload_deployment::aggregate_text(request, now)
        }
        Kind::WorkloadDeployment => {
            let deployment = raw::parse("request.object", request.object()?)?;
            workload_deployment::interpret(operation, &deployment, request)
        }
        Kind::Instance => {
            let instance = raw::parse("request.object", request.object()?)?;
            instance::interpret(operation, &instance, request)
        }
    }
}

/// Reads the object together with its envelope. `None` where that does not go smoothly.
fn in_one_pass(body: &[u8], now: Timestamp) -> Option<Interpretation> {
    let announced = review::announced(body)?;
    match announced {
        (Kind::WorkloadDeployment, Operation::AggregateStatus) => {
            let mut request: Request<'_, WorkloadDeployment<'_, Report<'_>>, Vec<Item<'_>>> =
                decode_as(announced, body)?;
            let (deployment, items) = (request.object.take()?, request.aggregated_status.take());
            let outcome =
                workload_deployment::aggregate(deployment, items.unwrap_or_default(), now);
            Some(review::encode(&request, Ok(outcome)))
        }
        (Kind::WorkloadDeployment, operation) => {
            let request: Request<'_, WorkloadDeployment<'_>> = decode_as(announced, body)?;
            let outcome =
                workload_deployment::interpret(operation, request.object.as_ref()?, &request);
            Some(review::encode(&request, outcome))
        }
        (Kind::Instance, operation) => {
            let request: Request<'_, Instance<'_>> = decode_as(announced, body)?;
            let outcome = instance::interpret(operation, request.object.as_ref()?, &request);
            Some(review::encode(&request, outcome))
        }
    }
}

fn decode_as<'a, O, I>(announced: (Kind, Operation), body: &'a [u8]) -> Option<Request<'a, O, I>>
where
    O: Deserialize<'a>,
    I: Deserialize<'a>,
{
    let request: Request<'a, O, I> = review::decode(body).ok()?;
    let found = (request.kind().ok()?, request.operation().ok()?);
    (found == announced).then_some(request)
}
