//! `POST /interpret`: reads the body within the limits, and passes the body to the interpreters.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use interpreters::{InterpretError, Interpretation, InterpretedKind, MalformedReview, Operation};
use tracing::{debug, debug_span, warn};

use crate::body::{Arrived, Arriving};
use crate::bounded::bounded;
use crate::capacity::RequestPermit;
use crate::context::HandlerContext;
use crate::http_error::HttpError;
use crate::panics;
use crate::scripts::Answered;
use crate::status::json_response;

/// Answers one request of Karmada. If the object cannot be interpreted, the HTTP status is still 200 and the answer has
/// `successful: false`.
///
/// The future does not contain the header of the request, and rare steps are boxed: the allocator needs much more time
/// for a large future.
pub(crate) fn handle(
    State(context): State<Arc<HandlerContext>>,
    request: Request,
) -> impl Future<Output = Response> {
    let arriving = context
        .admit(&context.metrics.requests, &request)
        .map(|permit| Arriving::new(&context.limits, request, permit));
    panics::caught(async move {
        let answer = match arriving {
            Ok(arriving) => interpret(&context, arriving).await,
            Err(overloaded) => Err(overloaded.into()),
        };
        match answer {
            Ok(body) => json_response(StatusCode::OK, body.into()),
            Err(error) => context.refuse(&context.metrics.requests, &error),
        }
    })
}

async fn interpret(context: &Arc<HandlerContext>, arriving: Arriving) -> Result<Bytes, HttpError> {
    let arrived = arriving.read(&context.limits).await?;
    if arrived.is_long {
        let owned = Arc::clone(context);
        let answer = async move { answer(&owned, arrived).await };
        return Box::pin(context.run_long(answer)).await;
    }
    answer(context, arrived).await
}

/// Answers a request whose body was read.
async fn answer(context: &HandlerContext, arrived: Arrived) -> Result<Bytes, HttpError> {
    let Arrived {
        body,
        mut permit,
        is_long,
        begin,
        deadline,
    } = arrived;
    let metrics = &context.metrics;
    if is_long {
        let decoded = interpreters::peak_bytes(body.len());
        permit.hold_decoded(body.len(), decoded).await?;
    }
    // Other bodies are decoded and answered without a pause, so as many of their decoded forms exist as the server has
    // threads. They are small and not counted.
    let interpret = || {
        // Native first.
        let interpretation = interpreters::interpret(&body, (context.clock)())?;
        let scripts = context.scripts.as_ref();
        let scripts = scripts.filter(|_| interpretation.kind.is_none());
        let target = match scripts {
            Some(scripts) => scripts.target(&body)?.map(|kind| (scripts, kind)),
            None => None,
        };
        Ok((interpretation, target))
    };
    let (mut interpretation, target) = permit
        .run(is_long, interpret)
        .await?
        .map_err(|error: MalformedReview| HttpError::malformed(&error))?;
    if let Some((scripts, kind)) = target {
        // Scripts have memory of their own, and can take long.
        permit.release_decoded();
        let (source, now) = (permit.source(), (context.clock)());
        let answered = Box::pin(scripts.answer(&body, kind, source, now, deadline)).await?;
        interpretation = match answered {
            Answered::Answer(answer) => answer,
            Answered::NoScript => interpretation,
            Answered::Failed(error) => Box::pin(refuse(&mut permit, &body, is_long, error)).await?,
        };
    }
    drop(body);
    log(context, &interpretation);
    let answer = std::mem::take(&mut interpretation.body);
    let answer = permit.answer(answer)?;
    metrics.answered(&interpretation, begin.elapsed());
    Ok(answer)
}

/// Returns the answer to a call whose script has failed without one. The body is decoded for it.
async fn refuse(
    permit: &mut RequestPermit,
    body: &Bytes,
    is_long: bool,
    error: InterpretError,
) -> Result<Interpretation, HttpError> {
    if is_long {
        let decoded = interpreters::peak_bytes(body.len());
        permit.hold_decoded(body.len(), decoded).await?;
    }
    let refused = permit.run(is_long, || interpreters::refuse(body, error));
    refused.await?.map_err(|error| HttpError::malformed(&error))
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
