//! `POST /interpret`: reads the body within the limits, and passes the body to the interpreters.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use interpreters::{Interpretation, InterpretedKind, Operation};
use tokio::time::Instant;
use tracing::{debug, debug_span, warn};

use crate::body;
use crate::bounded::bounded;
use crate::capacity::{RequestPermit, is_long_work};
use crate::context::HandlerContext;
use crate::http_error::HttpError;
use crate::status::json_response;

/// Answers one request of Karmada. If the object cannot be interpreted, the HTTP status is still 200 and the answer has
/// `successful: false`.
pub(crate) async fn handle(
    State(context): State<Arc<HandlerContext>>,
    request: Request,
) -> Response {
    match interpret(&context, request).await {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(error) => context.refuse(&context.metrics.requests, &error),
    }
}

async fn interpret(context: &Arc<HandlerContext>, request: Request) -> Result<Bytes, HttpError> {
    let (begin, time) = (Instant::now(), context.limits.timeout_for(request.uri()));
    let mut permit = context.admit(&context.metrics.requests, &request)?;
    let body = body::read(&context.limits, time, request, &mut permit).await?;
    let is_long = is_long_work(&body);
    let deadline = begin + time;
    permit.end_queue(is_long, deadline);
    if is_long {
        let owned = Arc::clone(context);
        let answer = async move { answer(&owned, body, permit, (true, deadline)).await };
        return context.run_long(answer).await;
    }
    answer(context, body, permit, (false, deadline)).await
}

/// Answers a request whose body was read.
async fn answer(
    context: &HandlerContext,
    body: Bytes,
    mut permit: RequestPermit,
    (is_long, deadline): (bool, Instant),
) -> Result<Bytes, HttpError> {
    let metrics = &context.metrics;
    let begin = Instant::now();
    if is_long {
        let decoded = interpreters::peak_bytes(body.len());
        permit.hold_decoded(body.len(), decoded).await?;
    }
    // Other bodies are decoded and answered without a pause, so as many of their decoded forms exist as the server has
    // threads. They are small and not counted.
    let interpret = || interpreters::interpret(&body, (context.clock)());
    let mut interpretation = permit
        .run(is_long, interpret)
        .await?
        .map_err(|error| HttpError::malformed(&error))?;
    // Native first.
    if let (None, Some(scripts)) = (interpretation.kind, &context.scripts) {
        // Scripts have memory of their own, and can take long.
        permit.release_decoded();
        let answered = scripts.answer(&body, (context.clock)(), deadline).await?;
        interpretation = answered.unwrap_or(interpretation);
    }
    drop(body);
    log(context, &interpretation);
    let answer = std::mem::take(&mut interpretation.body);
    let answer = permit.answer(answer)?;
    metrics.answered(&interpretation, begin.elapsed());
    Ok(answer)
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
        // The request chooses the length of the texts.
        let error = error.to_string();
        let [namespace, name, error] = [namespace, name, &*error].map(bounded);
        let problem = (operation, kind, namespace, name, error);
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
