//! `/metrics`: open, or with TLS and only to who may get it in the own cluster, as the baseline serves it.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use certs::reload;
use http::{HeaderValue, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::warn;

use crate::process_metrics;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The route. With a `reviewer`, each request must carry a bearer token that this API server knows and allows to get
/// `/metrics`.
pub(crate) fn router(registry: Registry, reviewer: Option<Client>) -> Router {
    let metrics = get(async |State(registry): State<Arc<Registry>>| {
        let mut text = String::new();
        let process = process_metrics::registry();
        let encoded =
            encode_registry(&mut text, &process).and_then(|()| encode(&mut text, &registry));
        match encoded {
            Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    });
    let router = Router::new()
        .route("/metrics", metrics)
        .with_state(Arc::new(registry));
    match reviewer {
        Some(client) => router.layer(middleware::from_fn_with_state(client, review)),
        None => router,
    }
}

async fn review(State(client): State<Client>, request: Request, next: Next) -> Response {
    let authorization = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let Some(token) = authorization.and_then(|value| value.strip_prefix("Bearer ")) else {
        return (StatusCode::UNAUTHORIZED, "a bearer token is needed\n").into_response();
    };
    match may_read(&client, token).await {
        Ok(Ok(())) => next.run(request).await,
        Ok(Err(refusal)) => refusal.into_response(),
        Err(error) => {
            warn!("metrics request not reviewed: {error:#}");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the review of the token failed; see the log\n",
            )
                .into_response()
        }
    }
}

/// Asks the own cluster whose the token is and whether he may.
async fn may_read(
    client: &Client,
    token: &str,
) -> anyhow::Result<Result<(), (StatusCode, &'static str)>> {
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let spec = TokenReviewSpec {
        token: token.to_owned(),
        ..TokenReviewSpec::default()
    };
    let review = TokenReview {
        spec,
        ..TokenReview::default()
    };
    let review = reviews
        .create(&PostParams::default(), &review)
        .await
        .context("TokenReview")?;
    let status = review.status.unwrap_or_default();
    let (Some(true), Some(user)) = (status.authenticated, status.user) else {
        return Ok(Err((
            StatusCode::UNAUTHORIZED,
            "the bearer token is not valid\n",
        )));
    };
    let UserInfo {
        extra,
        groups,
        uid,
        username,
    } = user;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let attributes = NonResourceAttributes {
        path: Some("/metrics".into()),
        verb: Some("get".into()),
    };
    let spec = SubjectAccessReviewSpec {
        extra,
        groups,
        non_resource_attributes: Some(attributes),
        resource_attributes: None,
        uid,
        user: username,
    };
    let review = SubjectAccessReview {
        spec,
        ..SubjectAccessReview::default()
    };
    let review = reviews
        .create(&PostParams::default(), &review)
        .await
        .context("SubjectAccessReview")?;
    Ok(match review.status {
        Some(status) if status.allowed => Ok(()),
        _ => Err((StatusCode::FORBIDDEN, "the user may not get /metrics\n")),
    })
}

/// What the webhook server serves with.
#[derive(Debug)]
pub(crate) struct CertificateMetrics(pub(crate) watch::Receiver<reload::State>);

impl Collector for CertificateMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let state = self.0.borrow().clone();
        let mut gauge = |name: &str, help: &str, value: i64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(not_after) = state.not_after {
            gauge(
                "certificate_not_after_seconds",
                "When the certificate that webhooks are served with expires",
                not_after.as_second(),
            )?;
        }
        if let Some(reloaded) = state.reloaded {
            gauge(
                "certificate_reloaded_seconds",
                "When a certificate was last taken into service",
                reloaded.as_second(),
            )?;
        }
        gauge(
            "certificate_valid",
            "Whether the files of the certificate can be served (1) or not (0)",
            i64::from(state.problem.is_none()),
        )?;
        gauge(
            "certificate_waits_for_trust",
            "Whether the certificate of the files waits until callers trust its authorities (1) or not (0)",
            i64::from(state.mounted != state.served),
        )?;
        for (name, help, count) in [
            (
                "certificate_reloads",
                "Certificates that were taken into service",
                state.reloads,
            ),
            (
                "certificate_failures",
                "Certificates that could not be served",
                state.failures,
            ),
        ] {
            let metric = ConstCounter::new(count);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
