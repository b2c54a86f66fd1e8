//! Karmada's resource interpreter for WorkloadDeployments and Instances.
//!
//! [`interpret`] takes the bytes of one request, and returns the bytes of the answer. The function does no I/O, reads
//! no clock and keeps no state. Each kind has one module, and each operation has one function in this module. The
//! documentation of the function contains the rule of the operation. Module [`review`] implements the wire protocol.
//! Module [`fold`] joins the statuses that several cells report for one WorkloadDeployment.
//!
//! Module [`lua`] answers requests with the Lua scripts of an operator instead. Module [`comparison`] finds the
//! differences between the two. Module [`caller`] is the caller's side of the protocol.
//!
//! A request can be decoded in two ways. The general way accepts any JSON. The fast way accepts only the form that
//! Karmada writes, and decodes the request in one pass. Only [`interpret`] decodes a whole request again in the general
//! way; the fast way can do this for single values. The answer has
//! the same bytes in both ways. Tests and a fuzz target check this.

mod annotations;
pub mod caller;
pub mod comparison;
mod dependencies;
mod error;
mod fast;
mod fields;
pub mod fold;
mod instance;
pub mod lua;
mod patch;
mod quantities;
mod raw;
mod requirements;
pub mod review;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
mod workload_deployment;

use jiff::Timestamp;

pub use error::InterpretError;
pub use review::{Interpretation, InterpretedKind, MalformedReview, Operation};

use review::{InterpretRequest, OperationOutcome};

/// Maximum memory for the answer to one request, as a multiple of the size of the request.
pub const PEAK_BYTES_PER_BYTE: usize = 12;
/// Memory that the answer to any request can need in addition to [`PEAK_BYTES_PER_BYTE`], in bytes.
pub const PEAK_BYTES_OF_ANY: usize = 16 << 10;

/// Returns the maximum memory for the answer to a request, in bytes, while the request is answered. `body` is the size
/// of the request in bytes. The answer itself is included, the request is not. `fuzz/tests/memory.rs` measures it.
pub fn peak_bytes(body: usize) -> usize {
    body.saturating_mul(PEAK_BYTES_PER_BYTE)
        .saturating_add(PEAK_BYTES_OF_ANY)
}

/// Answers one `ResourceInterpreterContext`.
///
/// `now` is the transition time of conditions that begin with this call.
///
/// # Errors
///
/// [`MalformedReview`] if `body` is not a `ResourceInterpreterContext` in JSON, or has no `request.uid`. Then no answer
/// is possible. For every other failure, the result is an answer with `successful: false`.
pub fn interpret(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let body = review::text(body)?;
    fast::interpret(body, now).or_else(|fast::NotCanonical| general(body, now))
}

/// Returns the `apiVersion` and the kind of the object of a request.
///
/// # Errors
///
/// The same errors as [`interpret`].
pub fn target(body: &[u8]) -> Result<(String, String), MalformedReview> {
    let request = review::decode(review::text(body)?)?;
    let (api_version, kind) = request.target();
    Ok((api_version, kind.to_owned()))
}

/// Returns the answer to a request that nothing can interpret for this reason.
///
/// # Errors
///
/// The same errors as [`interpret`].
pub fn refuse(body: &[u8], error: InterpretError) -> Result<Interpretation, MalformedReview> {
    let request = review::decode(review::text(body)?)?;
    Ok(review::encode(&request.meta(), Err(error)))
}

/// Returns the answer of [`interpret`], but never uses the fast way. Benchmarks use this function to compare the two
/// ways.
///
/// # Errors
///
/// The same errors as [`interpret`].
#[doc(hidden)]
pub fn interpret_general(body: &[u8], now: Timestamp) -> Result<Interpretation, MalformedReview> {
    general(review::text(body)?, now)
}

/// Answers a request in any JSON form. If a field cannot be decoded, the error contains its path.
fn general(body: &str, now: Timestamp) -> Result<Interpretation, MalformedReview> {
    let request = review::decode(body)?;
    let outcome = outcome(&request, now);
    Ok(review::encode(&request.meta(), outcome))
}

fn outcome<'a>(
    request: &InterpretRequest<'a>,
    now: Timestamp,
) -> Result<OperationOutcome<'a>, InterpretError> {
    let operation = request.operation()?;
    match request.kind()? {
        InterpretedKind::WorkloadDeployment => {
            workload_deployment::interpret(operation, request, now)
        }
        InterpretedKind::Instance => instance::interpret(operation, request),
    }
}
