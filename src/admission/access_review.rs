//! Posts SubjectAccessReviews to the API server of a project.

use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use kube::Client;
use kube::api::PostParams;
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
    let request = Request::new(PATH).create(&PostParams::default(), review.body())?;
    let answer: AnsweredReview = client.request(request).await?;
    decision(answer.status.ok_or(AccessReviewError::NoStatus)?)
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
    use super::*;

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
