//! Karmada's resource interpreter for WorkloadDeployment and Instance.
//!
//! [`interpret`] takes the bytes of one request and returns the bytes of its answer. It does no I/O, reads no clock and
//! keeps no state. Each kind has one module, with one function per operation; the function's documentation states the
//! operation's rule. [`review`] has the wire protocol. [`fold`] joins the statuses that several cells report for one
//! WorkloadDeployment.
//!
//! A request can be read in two ways. The general way accepts any JSON. The fast way accepts only the form in which
//! Karmada writes requests, and reads it in one pass. Only [`interpret`] chooses between them. Both ways give the same
//! bytes; tests and a fuzz target verify this.

mod annotations;
mod dependencies;
mod error;
mod fast;
pub mod fold;
mod instance;
mod instance_spec;
mod patch;
mod raw;
mod requirements;
pub mod review;
#[cfg(test)]
mod tests;
mod workload_deployment;

use jiff::Timestamp;

pub use error::InterpretError;
pub use review::{Interpretation, InterpretedKind, MalformedReview, Operation};

use review::{InterpretRequest, OperationOutcome};

/// Answers one `ResourceInterpreterContext`.
///
/// `now` is the transition time of conditions that begin with this call.
///
/// # Errors
///
/// [`MalformedReview`] when `body` is not JSON, or has no `request.uid` to answer to. Every other failure is an answer
/// with `successful: false`.
pub fn interpret(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let body = review::text(body)?;
    fast::interpret(body, now).or_else(|fast::NotCanonical| general(body, now))
}

/// Answers like [`interpret`], without trying the fast way. For benchmarks that compare the two ways.
///
/// # Errors
///
/// As [`interpret`].
#[doc(hidden)]
pub fn interpret_general(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    general(review::text(body)?, now)
}

/// Reads any JSON, and reports an error with the path of the field.
fn general(body: &str, now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let request = review::decode(body)?;
    let outcome = outcome(&request, now);
    Ok(review::encode(&request.meta(), outcome))
}

fn outcome(
    request: &InterpretRequest<'_>,
    now: Timestamp,
) -> Result<OperationOutcome, InterpretError> {
    let operation = request.operation()?;
    match request.kind()? {
        InterpretedKind::WorkloadDeployment => {
            workload_deployment::interpret(operation, request, now)
        }
        InterpretedKind::Instance => instance::interpret(operation, request),
    }
}
