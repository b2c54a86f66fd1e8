//! The fast way to decode requests: one pass over JSON in the form that Karmada writes.
//!
//! In this module, JSON is canonical if it is compact, its fields have a known order, and its strings have no escapes.
//! If a request is not canonical, [`interpret`] stops with [`NotCanonical`]. The caller then decodes the whole request
//! again in the general way. This module therefore never reports the error in a request. The general decoders do not
//! depend on this module.
//!
//! The status of a cell often contains a message with an escape. The escape must not slow down the whole request.
//! [`cursor::Cursor::canonical_or`] decodes only this value in the general way.
//!
//! `cargo xtask bench interpreter` prints how much faster the fast way is, for each operation.

mod cursor;
mod deployment;
mod instance;
mod request;
mod status;

use jiff::Timestamp;

pub(crate) use cursor::NotCanonical;

use crate::review::{self, Interpretation, InterpretedKind};
use request::FastRequest;

/// Answers a request in the form that Karmada writes.
///
/// # Errors
///
/// [`NotCanonical`] if the request is not canonical, or if this is uncertain.
pub(crate) fn interpret(body: &str, now: Timestamp) -> Result<Interpretation, NotCanonical> {
    let request = FastRequest::new(body)?;
    let meta = request.meta();
    let outcome = match request.kind {
        InterpretedKind::WorkloadDeployment => deployment::interpret(request, now)?,
        InterpretedKind::Instance => instance::interpret(request)?,
    };
    Ok(review::encode(&meta, outcome))
}
