//! Admission's questions about projects, answered by the planes.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use api::ProjectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use multicluster::ProjectRegistry;
use multicluster::projects::EngagedProject;
use serde::Deserialize;
use webhooks::admission::{self, AccessReview, Decision, ProjectError, UserInfo};

/// The projects that this process serves, and how a request says which one it is for.
pub(crate) struct Admission {
    pub(crate) projects: ProjectRegistry,
    /// The project of every request, where there is one only.
    pub(crate) only: Option<ProjectName>,
}

impl Admission {
    fn project(&self, name: &ProjectName) -> Result<Arc<EngagedProject>, ProjectError> {
        // Milo has said that there is the project: one that is not known here is one that has not been heard of yet.
        let project = self.projects.get(name);
        project.map_err(|error| ProjectError(error.to_string()))
    }
}

impl admission::Projects for Admission {
    fn only(&self) -> Option<&ProjectName> {
        self.only.as_ref()
    }

    fn cities(&self, project: &ProjectName) -> Result<Arc<BTreeSet<String>>, ProjectError> {
        let cities = self.project(project)?.cities_now();
        cities.map_err(|error| ProjectError(error.to_string()))
    }

    fn review(
        &self,
        project: &ProjectName,
        review: AccessReview,
    ) -> BoxFuture<'static, Result<Decision, ProjectError>> {
        let prepared = self
            .project(project)
            .and_then(|project| Ok((project, post(review)?)));
        async move {
            let (project, request) = prepared?;
            let _permit = project.request_permit().await;
            ask(project.client(), request).await
        }
        .boxed()
    }
}

/// The review's path is fixed: no discovery is needed, in which Milo has hidden it (platform.md 1.8).
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What is read of a review that has been answered.
#[derive(Deserialize)]
struct Answer {
    status: Option<SubjectAccessReviewStatus>,
}

/// The request that asks for a review. Only its bytes are kept while the answer is awaited: thousands may be.
fn post(review: AccessReview) -> Result<http::Request<Vec<u8>>, ProjectError> {
    let review = SubjectAccessReview {
        spec: spec(review),
        ..SubjectAccessReview::default()
    };
    let body = serde_json::to_vec(&review).map_err(failed)?;
    let request = Request::new(REVIEWS).create(&PostParams::default(), body);
    request.map_err(failed)
}

async fn ask(client: &Client, request: http::Request<Vec<u8>>) -> Result<Decision, ProjectError> {
    let answer: Answer = client.request(request).await.map_err(failed)?;
    let status = answer.status.ok_or_else(|| failed("it has no status"))?;
    decision(status).map_err(ProjectError)
}

fn failed(error: impl Display) -> ProjectError {
    ProjectError(format!("the access review failed: {error}"))
}

/// The requester as the API server knows them, with every claim: by those Milo decides (platform.md 2.4).
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

/// An authorizer that could not decide has not denied anything.
fn decision(status: SubjectAccessReviewStatus) -> Result<Decision, String> {
    let SubjectAccessReviewStatus {
        allowed,
        denied: _,
        evaluation_error,
        reason,
    } = status;
    match evaluation_error {
        Some(error) if !allowed => Err(format!("the authorizer could not decide: {error}")),
        _ => Ok(Decision {
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
    fn the_review_has_everything_that_is_known_of_the_user() {
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
    fn an_authorizer_that_could_not_decide_has_not_denied_anything() {
        let status = |allowed, error: Option<&str>| SubjectAccessReviewStatus {
            allowed,
            evaluation_error: error.map(str::to_owned),
            reason: Some("R".to_owned()),
            ..SubjectAccessReviewStatus::default()
        };
        let decided = |allowed| {
            Ok(Decision {
                allowed,
                reason: "R".to_owned(),
            })
        };
        assert_eq!(decision(status(true, None)), decided(true));
        assert_eq!(decision(status(true, Some("E"))), decided(true));
        assert_eq!(decision(status(false, None)), decided(false));
        assert_eq!(
            decision(status(false, Some("E"))),
            Err("the authorizer could not decide: E".to_owned())
        );
    }
}
