//! Checks at the own cluster whether the user of a token may read the metrics.

use anyhow::Context;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// Asks the own cluster for the user of the token, and whether this user may read `/metrics`. The inner error is the
/// response to the caller.
///
/// # Errors
///
/// If one of the two reviews fails.
pub(super) async fn may_read(
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
