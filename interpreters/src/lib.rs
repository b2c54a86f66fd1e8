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

pub use error::InterpretError;
pub use review::{Interpretation, Kind, MalformedReview, Operation};

/// Answers one `ResourceInterpreterContext` (karmada.md 1).
///
/// `now` is only used for a condition that begins with this call.
///
/// # Errors
///
/// [`MalformedReview`] when `body` is no request that could be answered in its own protocol: it is not JSON, or has no
/// `request.uid`. Every other failure is an answer with `successful: false`.
pub fn interpret(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let request = review::decode(body)?;
    let outcome = answer(&request, now);
    Ok(review::encode(&request, outcome))
}

fn answer(
    request: &review::Request<'_>,
    now: Timestamp,
) -> Result<review::Outcome, InterpretError> {
    let operation = request.operation()?;
    match request.kind()? {
        Kind::WorkloadDeployment => workload_deployment::interpret(operation, request, now),
        Kind::Instance => instance::interpret(operation, request),
    }
}
