//! Posts SubjectAccessReviews to the API server of a project.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde::Deserialize;
use thiserror::Error;
use webhooks::admission::{AccessDecision, AccessReview, ProjectLookupError, UserInfo};

/// Path of SubjectAccessReviews. The path is a constant because Milo hides the kind from API discovery
/// (docs/concepts/milo.md).
const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The reason why an access review has no decision.
#[derive(Debug, Error)]
pub(super) enum AccessReviewError {
    #[error("the access review failed: {0}")]
    Encode(#[from] serde_json::Error),
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

/// Builds the HTTP request of a review. Thousands of reviews can wait for an answer, so only the bytes of each request
/// are kept.
pub(super) fn request(review: AccessReview) -> Result<http::Request<Vec<u8>>, AccessReviewError> {
    let review = SubjectAccessReview {
        spec: spec(review),
        ..SubjectAccessReview::default()
    };
    let body = serde_json::to_vec(&review)?;
    Ok(Request::new(PATH).create(&PostParams::default(), body)?)
}

/// Sends the request and returns the decision.
pub(super) async fn send(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<AccessDecision, AccessReviewError> {
    let answer: AnsweredReview = client.request(request).await?;
    decision(answer.status.ok_or(AccessReviewError::NoStatus)?)
}

/// Copies the requester with every claim, because Milo's authorizer bases its decision on the claims
/// (docs/concepts/milo.md).
fn spec(review: AccessReview) -> SubjectAccessReviewSpec {
    let AccessReview {
        user,
        namespace,
        network,
    } = review;
    let UserInfo {
        username,
        uid,
        groups,
        extra,
    } = Arc::unwrap_or_clone(user);
    let attributes = ResourceAttributes {
        group: Some("networking.datumapis.com".to_owned()),
        version: Some("v1alpha".to_owned()),
        resource: Some("networks".to_owned()),
        verb: Some("use".to_owned()),
        namespace: Some(namespace),
        name: Some(network),
        ..ResourceAttributes::default()
    };
    SubjectAccessReviewSpec {
        user: Some(username),
        uid: Some(uid),
        groups: Some(groups),
        extra: Some(extra),
        resource_attributes: Some(attributes),
        non_resource_attributes: None,
    }
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_review_has_every_attribute_of_the_requester() {
        let values = |values: &[&str]| {
            values
                .iter()
                .map(|&value| value.to_owned())
                .collect::<Vec<_>>()
        };
        let extra = BTreeMap::from([
            ("Example.com/Ünï".to_owned(), values(&["b", "a", "b", ""])),
            ("iam.miloapis.com/parent-name".to_owned(), values(&["p1"])),
        ]);
        let user = UserInfo {
            username: "ada".to_owned(),
            uid: "7".to_owned(),
            groups: values(&["z", "a"]),
            extra: extra.clone(),
        };
        let spec = spec(AccessReview {
            user: Arc::new(user),
            namespace: "default".to_owned(),
            network: "n".to_owned(),
        });
        assert_eq!(
            serde_json::to_value(spec).unwrap(),
            serde_json::json!({
                "user": "ada", "uid": "7", "groups": ["z", "a"], "extra": extra,
                "resourceAttributes": {
                    "group": "networking.datumapis.com", "version": "v1alpha", "resource": "networks", "verb": "use",
                    "namespace": "default", "name": "n",
                },
            })
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
