//! The answer 429 to a request for which no capacity is free.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use thiserror::Error;

use crate::status;

/// Value of `Retry-After`, in seconds. Karmada's client repeats a request within its own deadline only after a 429
/// (docs/concepts/interpreter.md).
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The error of a request for which no capacity is free.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many requests are in flight; try again")]
pub(crate) struct Overloaded;

/// Returns the HTTP answer: 429 with `Retry-After`.
pub(crate) fn response(message: &str) -> Response {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let mut response = status::response(code, "TooManyRequests", message);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    response
}
