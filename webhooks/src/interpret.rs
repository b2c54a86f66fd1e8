//! `POST /interpret`: reads the body within the limits, and passes the body to the interpreters.

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use interpreters::{Interpretation, InterpretedKind, Operation};
use tokio::time::Instant;
use tracing::{debug, debug_span, warn};

use crate::body;
use crate::bounded::bounded;
use crate::capacity::is_long_work;
use crate::context::HandlerContext;
use crate::http_error::HttpError;
use crate::status::json_response;

/// Answers one request of Karmada. If the object cannot be interpreted, the HTTP status is still 200 and the answer has
/// `successful: false`.
pub(crate) async fn handle(State(context): State<HandlerContext>, request: Request) -> Response {
    match interpret(&context, request).await {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(error) => context.refuse(&context.metrics.requests, &error),
    }
}

async fn interpret(context: &HandlerContext, request: Request) -> Result<Bytes, HttpError> {
    let metrics = &context.metrics;
    let mut permit = context.admit(&metrics.requests, &request)?;
    let body = body::read(&context.limits, request, &mut permit).await?;
    let begin = Instant::now();
    let is_long = is_long_work(&body);
    if is_long {
        let decoded = interpreters::peak_bytes(body.len());
        permit.hold_decoded(body.len(), decoded).await?;
    }
    // Other bodies are decoded and answered without a pause, so as many of their decoded forms exist as the server has
    // threads. They are small and not counted.
    let interpret = || interpreters::interpret(&body, (context.clock)());
    let interpretation = permit
        .run(is_long, interpret)
        .await?
        .map_err(|error| HttpError::malformed(&error))?;
    drop(body);
    metrics.answered(&interpretation, begin.elapsed());
    log(context, &interpretation);
    Ok(permit.answer(interpretation.body)?)
}

/// Logs the outcome. A failed interpretation is logged as a warning, once per object and message.
fn log(context: &HandlerContext, interpretation: &Interpretation) {
    let Interpretation {
        operation,
        kind,
        uid,
        namespace,
        name,
        error,
        body: _,
    } = interpretation;
    let (operation, kind) = (
        operation.map(Operation::as_str),
        kind.map(InterpretedKind::as_str),
    );
    let first = error.as_ref().is_some_and(|error| {
        let problem = (operation, kind, namespace, name, error.to_string());
        context.log_dedup.is_first(problem)
    });
    // The macros cut the texts off only if the line is logged.
    let _span = debug_span!("interpret", uid = &*bounded(uid)).entered();
    match error.as_ref().map(ToString::to_string) {
        Some(error) if first => warn!(
            uid = &*bounded(uid),
            operation,
            kind,
            namespace = &*bounded(namespace),
            name = &*bounded(name),
            error = &*bounded(&error),
            "not interpreted"
        ),
        Some(error) => debug!(
            operation,
            kind,
            namespace = &*bounded(namespace),
            name = &*bounded(name),
            error = &*bounded(&error),
            "not interpreted"
        ),
        None => debug!(
            operation,
            kind,
            namespace = &*bounded(namespace),
            name = &*bounded(name),
            "interpreted"
        ),
    }
}
