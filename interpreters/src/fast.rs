//! The fast way to read requests: one pass over JSON in the form in which Karmada writes it.
//!
//! Canonical JSON here means: compact, fields in a known order, strings without escapes. [`interpret`] gives up with
//! [`NotCanonical`] as soon as a request has another form, and the caller reads it the general way from the start. So
//! this module never reports the error in a request, and the general readers do not depend on it.
//!
//! A message with an escape in the status of one cell is common. It must not slow down the whole request:
//! [`cursor::Cursor::canonical_or`] reads such a single value the general way, in place.
//!
//! `cargo xtask bench interpreter` prints the speed-up of the fast way for each operation.

mod cursor;
mod deployment;
mod instance;
mod request;
mod status;

use jiff::Timestamp;

pub(crate) use cursor::NotCanonical;

use crate::review::{self, Interpretation, InterpretedKind};
use request::FastRequest;

/// Answers a request that is written as Karmada writes it.
///
/// # Errors
///
/// [`NotCanonical`] if the request has, or may have, another form.
pub(crate) fn interpret(body: &str, now: Timestamp) -> Result<Interpretation, NotCanonical> {
    let request = FastRequest::new(body)?;
    let meta = request.meta();
    let outcome = match request.kind {
        InterpretedKind::WorkloadDeployment => deployment::interpret(request, now)?,
        InterpretedKind::Instance => instance::interpret(request)?,
    };
    Ok(review::encode(&meta, outcome))
}
