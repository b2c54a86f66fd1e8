//! Serves `/metrics` as the Go manager does: over HTTP to everyone, or over TLS only to users that the own cluster
//! authorizes.

mod reviewer;
#[cfg(test)]
mod tests;
mod token_review;

use std::iter;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use kube::Client;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use tracing::warn;
use webhooks::LogDedup;

use crate::process_metrics;
use crate::serving::Runtimes;
use reviewer::Reviewer;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

struct MetricsState {
    registries: Vec<Registry>,
    runtimes: Runtimes,
}

/// Returns the route. The tasks of `runtimes` count as tasks of the process. With a
/// `reviewer`, each request must contain a bearer token. The `reviewer` API server must allow the user of the token to
/// `get` `/metrics`.
pub(crate) fn router(
    registries: Vec<Registry>,
    runtimes: Runtimes,
    reviewer: Option<Client>,
) -> Router {
    let metrics = get(async |State(state): State<Arc<MetricsState>>| {
        let MetricsState {
            registries,
            runtimes,
        } = &*state;
        let mut text = String::new();
        let others = runtimes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let process = process_metrics::registry(others);
        let mut all = iter::once(&process).chain(registries);
        let encoded = all
            .try_for_each(|registry| encode_registry(&mut text, registry))
            .and_then(|()| encode_eof(&mut text));
        match encoded {
            Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    });
    let router = Router::new()
        .route("/metrics", metrics)
        .with_state(Arc::new(MetricsState {
            registries,
            runtimes,
        }));
    match reviewer {
        Some(client) => {
            let reviews = Reviews {
                reviewer: Reviewer::new(client),
                logged: LogDedup::default(),
            };
            router.layer(middleware::from_fn_with_state(Arc::new(reviews), review))
        }
        None => router,
    }
}

/// The reviewer, and the errors of reviews that were logged.
struct Reviews {
    reviewer: Reviewer,
    logged: LogDedup,
}

async fn review(State(reviews): State<Arc<Reviews>>, request: Request, next: Next) -> Response {
    let authorization = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(token) = authorization.and_then(|value| value.strip_prefix("Bearer ")) else {
        return (StatusCode::UNAUTHORIZED, "a bearer token is needed\n").into_response();
    };
    match reviews.reviewer.review(token).await {
        Ok(Ok(())) => next.run(request).await,
        Ok(Err(refusal)) => refusal.into_response(),
        Err(error) => {
            let problem = format!("{error:#}");
            if reviews.logged.is_first(&problem) {
                warn!("the review of a metrics request failed: {problem}");
            }
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the review of the token failed; see the log\n",
            )
                .into_response()
        }
    }
}
