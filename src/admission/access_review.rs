//! Posts SubjectAccessReviews to the API server of a project.

use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use kube::Client;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Request;
use serde::Deserialize;
use thiserror::Error;
use webhooks::admission::{AccessDecision, AccessReview, ProjectLookupError};

/// Path of SubjectAccessReviews. The path is a constant because Milo hides the kind from API discovery
/// (docs/concepts/milo.md).
const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The reason why an access review has no decision.
#[derive(Debug, Error)]
pub(super) enum AccessReviewError {
    #[error("the access review failed: {0}")]
    Build(#[from] kube::core::request::Error),
    #[error("the access review failed: {0}")]
    Call(#[from] kube::Error),
    #[error("the access review failed: the answer cannot be read: {0}")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the access review failed: HTTP {code}: {message}")]
    Refused { code: StatusCode, message: String },
    #[error("the access review failed: the answer is no SubjectAccessReview: {0}")]
    Decode(#[from] serde_json::Error),
    #[error("the access review failed: it has no status")]
    NoStatus,
    #[error("the authorizer could not decide: {0}")]
    Undecided(String),
}

impl From<AccessReviewError> for ProjectLookupError {
    fn from(error: AccessReviewError) -> Self {
        Self(error.to_string())
    }
}

/// The part of a SubjectAccessReview response that this process reads.
#[derive(Deserialize)]
struct AnsweredReview {
    status: Option<SubjectAccessReviewStatus>,
}

/// Sends the review and returns the decision.
pub(super) async fn send(
    client: &Client,
    review: &AccessReview,
) -> Result<AccessDecision, AccessReviewError> {
    post(client, review.body(), review.answer_max()).await
}

/// Posts the body of a review. An answer of more than `answer_max` bytes is an error, because admission has not counted
/// its memory.
async fn post(
    client: &Client,
    body: Vec<u8>,
    answer_max: usize,
) -> Result<AccessDecision, AccessReviewError> {
    let request = Request::new(PATH).create(&PostParams::default(), body)?;
    let response = client.send(request.map(Body::from)).await?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, answer_max).collect().await;
    let body = body.map_err(AccessReviewError::Read)?.to_bytes();
    if !head.status.is_success() {
        return Err(refused(head.status, &body));
    }
    let answer: AnsweredReview = serde_json::from_slice(&body)?;
    decision(answer.status.ok_or(AccessReviewError::NoStatus)?)
}

/// Returns the error for an answer that is no success. Its body is a `Status`, or the text of a proxy.
fn refused(code: StatusCode, body: &[u8]) -> AccessReviewError {
    let status = serde_json::from_slice::<kube::core::Status>(body);
    let message = match status {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    AccessReviewError::Refused { code, message }
}

/// Reads the decision. An evaluation error without `allowed` means that the authorizer failed, not that it denied the
/// request.
fn decision(status: SubjectAccessReviewStatus) -> Result<AccessDecision, AccessReviewError> {
    let SubjectAccessReviewStatus {
        allowed,
        denied: _,
        evaluation_error,
        reason,
    } = status;
    match evaluation_error {
        Some(error) if !allowed => Err(AccessReviewError::Undecided(error)),
        _ => Ok(AccessDecision {
            allowed,
            reason: reason.unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;

    use super::*;

    /// Returns the result of a review whose answer has this status code and this body.
    async fn answered(code: u16, body: &'static str) -> Result<bool, String> {
        let service = tower::service_fn(move |_| async move {
            let response = Response::builder().status(code);
            Ok::<_, Infallible>(response.body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        let client = Client::new(service, "default");
        let reviewed = post(&client, b"{}".to_vec(), 256).await;
        let reviewed = reviewed.map(|decision| decision.allowed);
        reviewed.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_long_answer_and_a_refusal_are_errors() {
        assert_eq!(
            answered(201, r#"{"spec":{},"status":{"allowed":true}}"#).await,
            Ok(true)
        );
        let long: &str = Box::leak(format!("{:257}", r#"{"status":{}}"#).into_boxed_str());
        let error = answered(201, long).await.unwrap_err();
        assert_eq!(
            error,
            "the access review failed: the answer cannot be read: length limit exceeded"
        );
        let status = r#"{"kind":"Status","status":"Failure","message":"no right","code":403}"#;
        assert_eq!(
            answered(403, status).await.unwrap_err(),
            "the access review failed: HTTP 403 Forbidden: no right"
        );
        assert_eq!(
            answered(502, "no route\n").await.unwrap_err(),
            "the access review failed: HTTP 502 Bad Gateway: no route\n"
        );
    }

    #[test]
    fn an_evaluation_error_is_not_a_denial() {
        let decided = |allowed, error: Option<&str>| {
            let status = SubjectAccessReviewStatus {
                allowed,
                evaluation_error: error.map(str::to_owned),
                reason: Some("R".to_owned()),
                ..SubjectAccessReviewStatus::default()
            };
            decision(status).map_err(|error| error.to_string())
        };
        let expected = |allowed| {
            Ok(AccessDecision {
                allowed,
                reason: "R".to_owned(),
            })
        };
        assert_eq!(decided(true, None), expected(true));
        assert_eq!(decided(true, Some("E")), expected(true));
        assert_eq!(decided(false, None), expected(false));
        assert_eq!(
            decided(false, Some("E")),
            Err("the authorizer could not decide: E".to_owned())
        );
    }
}
