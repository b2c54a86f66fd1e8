//! The answer to a panic of a handler.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::response::Response;
use futures::FutureExt;
use http::StatusCode;
use tracing::error;

use crate::bounded::bounded;
use crate::status;

/// Runs a handler. If it panics, the panic is logged, and the answer is the status 500. A layer around the routes would
/// do the same, but it would box the request, the answer and the future once more.
pub(crate) async fn caught(handler: impl Future<Output = Response>) -> Response {
    let ended = AssertUnwindSafe(handler).catch_unwind().await;
    ended.unwrap_or_else(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    error!(problem = &*bounded(message), "a handler panicked");
    status::response(
        StatusCode::INTERNAL_SERVER_ERROR,
        "InternalError",
        "the handler panicked; see the log",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_with_an_internal_error() {
        let answer = caught(async { panic!("in a test") }).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let answer = caught(async { status::not_found("/x".parse().unwrap()).await }).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    }
}
