//! `POST /interpret`: reads the body within its bounds and hands it to the interpreters.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use interpreters::{Interpretation, InterpretedKind, Operation};
use tokio::time::Instant;
use tracing::{debug, debug_span, warn};

use crate::Shared;
use crate::body::{self, Refusal};
use crate::status::json_response;

/// Answers one call of Karmada. An object that cannot be interpreted is an answer too (HTTP 200, `successful: false`).
pub(crate) async fn handle(State(shared): State<Shared>, request: Request) -> Response {
    match interpret(&shared, request).await {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(refusal) => shared.refuse(&shared.metrics.intake, &refusal),
    }
}

async fn interpret(shared: &Shared, request: Request) -> Result<Vec<u8>, Refusal> {
    let mut part = shared.capacity.place()?;
    let _in_flight = shared.metrics.intake.in_flight();
    let body = body::read(&shared.capacity, request, &mut part).await?;
    let begin = Instant::now();
    let interpretation = interpreters::interpret(&body, (shared.clock)())
        .map_err(|error| Refusal::Malformed(error.to_string()))?;
    shared.metrics.answered(&interpretation, begin.elapsed());
    tell(shared, &interpretation);
    Ok(interpretation.body)
}

/// Reports what could not be interpreted, once.
fn tell(shared: &Shared, interpretation: &Interpretation) {
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
    let _span = debug_span!("interpret", uid).entered();
    match error {
        Some(error)
            if shared
                .problems
                .is_new((operation, kind, namespace, name, error.to_string())) =>
        {
            warn!(uid, operation, kind, namespace, name, %error, "not interpreted");
        }
        Some(error) => debug!(operation, kind, namespace, name, %error, "not interpreted"),
        None => debug!(operation, kind, namespace, name, "interpreted"),
    }
}
