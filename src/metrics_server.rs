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
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::warn;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The route. With a `reviewer`, each request must carry a bearer token that this API server knows and allows to get
/// `/metrics`.
pub(crate) fn router(registry: Registry, reviewer: Option<Client>) -> Router {
    let metrics = get(async |State(registry): State<Arc<Registry>>| {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &registry) {
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
        let reload::State {
            not_after,
            reloads,
            failures,
        } = self.0.borrow().clone();
        let mut encode =
            |name: &str,
             help: &str,
             metric: &dyn Fn(MetricEncoder<'_>) -> std::fmt::Result,
             type_| { metric(encoder.encode_descriptor(name, help, None, type_)?) };
        if let Some(not_after) = not_after {
            let help = "When the certificate that webhooks are served with expires";
            let metric = ConstGauge::new(not_after.as_second());
            encode(
                "certificate_not_after_seconds",
                help,
                &|encoder| metric.encode(encoder),
                metric.metric_type(),
            )?;
        }
        for (name, help, count) in [
            (
                "certificate_reloads",
                "Certificates that were taken into service",
                reloads,
            ),
            (
                "certificate_failures",
                "Certificates that could not be served",
                failures,
            ),
        ] {
            let metric = ConstCounter::new(count);
            encode(
                name,
                help,
                &|encoder| metric.encode(encoder),
                metric.metric_type(),
            )?;
        }
        Ok(())
    }
}
