//! Karmada's resource interpreter for WorkloadDeployment and Instance.
//!
//! A request comes in as bytes and its answer goes out as bytes ([`interpret`]); there is no I/O, no clock and no state
//! in between. One module per kind, one function per operation. What Karmada sends and expects is in [`review`], the
//! semantics of each operation beside the function that has it.
//!
//! [`fold`] joins what several cells report about one WorkloadDeployment.

mod annotations;
mod cursor;
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

pub use error::InterpretError;
pub use review::{Interpretation, Kind, MalformedReview, Operation};

use cursor::{Cursor, OtherForm};
use instance::Instance;
use review::{Outcome, Request, Usual, unread};

/// Answers one `ResourceInterpreterContext` (karmada.md 1).
///
/// `now` is only used for a condition that begins with this call.
///
/// # Errors
///
/// [`MalformedReview`] when `body` is no request that could be answered in its own protocol: it is not JSON, or has no
/// `request.uid`. Every other failure is an answer with `successful: false`.
pub fn interpret(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let body = review::text(body)?;
    if let Ok(interpretation) = in_one_pass(body, now) {
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
        Kind::WorkloadDeployment => workload_deployment::interpret(operation, request, now),
        Kind::Instance => {
            let instance = raw::parse("request.object", request.object()?)?;
            instance::interpret(operation, &instance, request)
        }
    }
}

/// Reads the object together with its envelope, where both are written as usual.
fn in_one_pass(body: &str, now: Timestamp) -> Result<Interpretation, OtherForm> {
    let usual = Usual::new(body)?;
    let operation = usual.operation;
    match usual.kind {
        Kind::WorkloadDeployment => workload_deployment::in_one_pass(usual, now),
        Kind::Instance => {
            let request: Request<'_, Instance<'_>> = usual.read(Cursor::value, unread)?;
            let instance = request.object.as_ref().ok_or(OtherForm)?;
            let outcome = instance::interpret(operation, instance, &request);
            Ok(review::encode(&request, outcome))
        }
    }
}
