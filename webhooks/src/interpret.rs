//! `POST /interpret`: reads the body within its bounds and hands it to the interpreters.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::status::{json_response, response};
use crate::{BODY_MAX, REQUEST_MAX, Shared};

/// What is left of the caller's time for the way back.
const MARGIN: Duration = Duration::from_millis(250);

/// A request that gets an HTTP error instead of an answer.
enum Refusal {
    TooLarge,
    TooSlow(Duration),
    Broken(String),
    Malformed(String),
}

/// Answers one call of Karmada. An object that cannot be interpreted is an answer too (HTTP 200, `successful: false`).
pub(crate) async fn handle(State(shared): State<Shared>, request: Request) -> Response {
    match interpret(&shared, request).await {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(refusal) => {
            shared.metrics.refused();
            refusal.response()
        }
    }
}

async fn interpret(shared: &Shared, request: Request) -> Result<Vec<u8>, Refusal> {
    let body = read(request).await?;
    let begin = Instant::now();
    let interpretation = interpreters::interpret(&body, (shared.clock)())
        .map_err(|error| Refusal::Malformed(error.to_string()))?;
    shared.metrics.answered(&interpretation, begin.elapsed());
    let operation = interpretation
        .operation
        .map(interpreters::Operation::as_str);
    let kind = interpretation.kind.map(interpreters::Kind::as_str);
    let interpreters::Interpretation {
        uid,
        namespace,
        name,
        ..
    } = &interpretation;
    match &interpretation.error {
        Some(error) => warn!(uid, operation, kind, namespace, name, %error, "not interpreted"),
        None => debug!(uid, operation, kind, namespace, name, "interpreted"),
    }
    Ok(interpretation.body)
}

async fn read(request: Request) -> Result<Bytes, Refusal> {
    let time = time_for(request.uri());
    let body = Limited::new(request.into_body(), BODY_MAX);
    match timeout(time, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Ok(Err(error)) => Err(Refusal::Broken(error.to_string())),
        Err(_) => Err(Refusal::TooSlow(time)),
    }
}

/// The time that the caller's `?timeout=<n>s` leaves (karmada.md 1.6).
fn time_for(uri: &Uri) -> Duration {
    let parameters = uri.query().unwrap_or_default().split('&');
    let named = parameters
        .filter_map(|parameter| parameter.strip_prefix("timeout=")?.strip_suffix('s'))
        .find_map(|seconds| seconds.parse().ok().map(Duration::from_secs));
    named.map_or(REQUEST_MAX, |named| {
        named.saturating_sub(MARGIN).min(REQUEST_MAX)
    })
}

impl Refusal {
    fn response(self) -> Response<Body> {
        let (code, reason, message) = match self {
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("the body is larger than {BODY_MAX} bytes"),
            ),
            Self::TooSlow(time) => (
                StatusCode::REQUEST_TIMEOUT,
                "Timeout",
                format!("the body did not arrive within {} ms", time.as_millis()),
            ),
            Self::Broken(problem) => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                format!("the body could not be read: {problem}"),
            ),
            Self::Malformed(problem) => (StatusCode::BAD_REQUEST, "BadRequest", problem),
        };
        warn!(code = code.as_u16(), %message, "interpreter request refused");
        response(code, reason, &message)
    }
}
