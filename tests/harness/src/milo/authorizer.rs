//! A fake of Milo's authorizer. The API servers of the projects call it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::milo::RESOURCE_MANAGER_GROUP;
use api::rights::MANAGER_USER;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::lock;
use super::user::{PARENT_API_GROUP, PARENT_NAME, PARENT_TYPE};
use crate::rights::WEBHOOK_USER;
use crate::serve::BoxedBody;
use crate::status_error::{StatusError, json_response};

/// API group and resource that need rights. A user of a test may access any other resource.
const GROUP: &str = "networking.datumapis.com";
const RESOURCE: &str = "networks";

/// One access review that the authorizer received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedReview {
    /// The project of the API server that sent the request.
    pub project: String,
    /// `spec` of the SubjectAccessReview, verbatim.
    pub spec: Value,
}

/// The body of a request from an API server.
#[derive(Deserialize)]
struct ReviewBody {
    spec: Value,
}

impl ReceivedReview {
    fn text(&self, pointer: &str) -> &str {
        let value = self.spec.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    /// Returns whether the review is about a resource that needs rights.
    fn is_of_network(&self) -> bool {
        self.text("/resourceAttributes/group") == GROUP
            && self.text("/resourceAttributes/resource") == RESOURCE
    }

    /// Returns whether the review is about compute-federation. Only RBAC gives rights to compute-federation.
    fn is_of_ours(&self) -> bool {
        [MANAGER_USER, WEBHOOK_USER].contains(&self.text("/user"))
    }

    /// Returns the value of an Extra key, if the key has exactly one value.
    fn single(&self, key: &str) -> Option<&str> {
        let values = self.spec.get("extra")?.get(key)?.as_array()?;
        match values.as_slice() {
            [value] => value.as_str(),
            _ => None,
        }
    }

    /// Returns the project of the request. Each of the three parent keys must have exactly one value.
    fn parent(&self) -> Option<&str> {
        let is_project = self.single(PARENT_TYPE)? == "Project"
            && self.single(PARENT_API_GROUP)? == RESOURCE_MANAGER_GROUP;
        self.single(PARENT_NAME).filter(|_| is_project)
    }
}

/// The answer to an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizerAnswer {
    /// Access is allowed.
    Allowed,
    /// The user has no permission, for this reason. RBAC can still allow the request.
    Denied(String),
    /// An evaluation error with this message.
    Failed(String),
    /// An HTTP error. API servers repeat the review for some seconds.
    Broken,
}

/// The right of a user to a permission such as `networking.datumapis.com/networks.use`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct GrantedRight {
    uid: String,
    permission: String,
    scope: RightScope,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum RightScope {
    Project(String),
    Named(String),
}

type Decide = dyn Fn(&ReceivedReview) -> Option<AuthorizerAnswer> + Send + Sync;

/// Decides as Milo's authorizer does, by rights that a test grants. Records the reviews about networks.
#[derive(Default)]
pub struct MiloAuthorizer {
    rights: Mutex<HashSet<GrantedRight>>,
    /// Functions that decide instead of the rights, by project.
    deciders: Mutex<HashMap<String, Arc<Decide>>>,
    delays: Mutex<HashMap<String, Duration>>,
    reviews: Mutex<Vec<ReceivedReview>>,
}

impl MiloAuthorizer {
    /// Grants a right to all objects of a project.
    pub fn allow(&self, uid: &str, project: &str, permission: &str) {
        self.grant(uid, permission, RightScope::Project(project.to_owned()));
    }

    /// Grants a right to one object by its name. This right needs no parent in Extra.
    pub fn allow_named(&self, uid: &str, name: &str, permission: &str) {
        self.grant(uid, permission, RightScope::Named(name.to_owned()));
    }

    fn grant(&self, uid: &str, permission: &str, scope: RightScope) {
        let (uid, permission) = (uid.to_owned(), permission.to_owned());
        lock(&self.rights).insert(GrantedRight {
            uid,
            permission,
            scope,
        });
    }

    /// Revokes all rights of a user.
    pub fn forbid(&self, uid: &str) {
        lock(&self.rights).retain(|right| right.uid != uid);
    }

    /// Answers all reviews from a project's API server with `decide`, including reviews about other resources. If
    /// `decide` returns `None`, the rights decide.
    pub fn decide_by(
        &self,
        project: &str,
        decide: impl Fn(&ReceivedReview) -> Option<AuthorizerAnswer> + Send + Sync + 'static,
    ) {
        lock(&self.deciders).insert(project.to_owned(), Arc::new(decide));
    }

    /// Undoes [`decide_by`](Self::decide_by). The rights decide again.
    pub fn decide_by_rights(&self, project: &str) {
        lock(&self.deciders).remove(project);
    }

    /// Delays every answer to a review about networks from a project's API server.
    pub fn set_delay(&self, project: &str, delay: Duration) {
        lock(&self.delays).insert(project.to_owned(), delay);
    }

    /// Returns the reviews about networks from a project's API server, in order.
    pub fn reviews(&self, project: &str) -> Vec<ReceivedReview> {
        let reviews = lock(&self.reviews);
        let of_project = reviews.iter().filter(|review| review.project == project);
        of_project.cloned().collect()
    }

    /// Forgets the recorded reviews of a project's API server.
    pub fn clear(&self, project: &str) {
        lock(&self.reviews).retain(|review| review.project != project);
    }

    fn decide(&self, review: &ReceivedReview) -> AuthorizerAnswer {
        if review.is_of_ours() {
            return AuthorizerAnswer::Denied("RBAC decides".to_owned());
        }
        let decide = lock(&self.deciders).get(&review.project).cloned();
        let decided = decide.and_then(|decide| decide(review));
        decided.unwrap_or_else(|| self.by_rights(review))
    }

    fn by_rights(&self, review: &ReceivedReview) -> AuthorizerAnswer {
        if !review.is_of_network() {
            return AuthorizerAnswer::Allowed;
        }
        let uid = review.text("/uid");
        if uid.is_empty() {
            return AuthorizerAnswer::Failed("user UID is required to decide".to_owned());
        }
        let permission = format!(
            "{GROUP}/{RESOURCE}.{}",
            review.text("/resourceAttributes/verb")
        );
        let project = review
            .parent()
            .map(|name| RightScope::Project(name.to_owned()));
        let named = match review.text("/resourceAttributes/name") {
            "" => None,
            name => Some(RightScope::Named(name.to_owned())),
        };
        let rights = lock(&self.rights);
        let allowed = [project, named].into_iter().flatten().any(|scope| {
            let (uid, permission) = (uid.to_owned(), permission.clone());
            rights.contains(&GrantedRight {
                uid,
                permission,
                scope,
            })
        });
        match allowed {
            true => AuthorizerAnswer::Allowed,
            false => AuthorizerAnswer::Denied(format!("{uid} has no permission {permission}")),
        }
    }

    /// Answers a request from an API server. The last segment of the path is the project of this API server.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<BoxedBody> {
        let path = request.uri().path();
        let project = path.rsplit('/').next().unwrap_or_default().to_owned();
        let body = request.into_body().collect().await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let Ok(ReviewBody { spec }) = serde_json::from_slice(&body) else {
            let error = StatusError::new(StatusCode::BAD_REQUEST, "BadRequest", "no review");
            return error.response();
        };
        let review = ReceivedReview { project, spec };
        if review.is_of_network() {
            lock(&self.reviews).push(review.clone());
            let delay = lock(&self.delays).get(&review.project).copied();
            sleep(delay.unwrap_or_default()).await;
        }
        let status = match self.decide(&review) {
            AuthorizerAnswer::Allowed => json!({"allowed": true}),
            AuthorizerAnswer::Denied(reason) => json!({"allowed": false, "reason": reason}),
            AuthorizerAnswer::Failed(error) => {
                json!({"allowed": false, "reason": error, "evaluationError": error})
            }
            AuthorizerAnswer::Broken => {
                let code = StatusCode::INTERNAL_SERVER_ERROR;
                return StatusError::new(code, "InternalError", "broken").response();
            }
        };
        let answer = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "status": status,
        });
        json_response(StatusCode::OK, &answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USE: &str = "networking.datumapis.com/networks.use";

    fn review(change: impl FnOnce(&mut Value)) -> ReceivedReview {
        let mut spec = json!({
            "user": "ada",
            "uid": "7",
            "resourceAttributes": {"verb": "use", "group": GROUP, "resource": RESOURCE, "name": "n"},
            "extra": {
                PARENT_TYPE: ["Project"],
                PARENT_NAME: ["p1"],
                PARENT_API_GROUP: ["resourcemanager.miloapis.com"],
            },
        });
        change(&mut spec);
        ReceivedReview {
            project: "p1".to_owned(),
            spec,
        }
    }

    #[test]
    fn a_right_in_a_project_needs_all_three_keys_with_one_value() {
        let authorizer = MiloAuthorizer::default();
        authorizer.allow("7", "p1", USE);
        let allowed = |change: fn(&mut Value)| {
            authorizer.decide(&review(change)) == AuthorizerAnswer::Allowed
        };
        assert!(allowed(|_| ()));
        let denied: [fn(&mut Value); 7] = [
            |spec| spec["uid"] = json!("8"),
            |spec| spec["extra"][PARENT_NAME] = json!(["p2"]),
            |spec| spec["extra"][PARENT_NAME] = json!(["p1", "p1"]),
            |spec| spec["extra"][PARENT_TYPE] = json!([]),
            |spec| spec["extra"] = json!({PARENT_TYPE: ["Project"], PARENT_NAME: ["p1"]}),
            |spec| spec["extra"] = json!(null),
            |spec| spec["resourceAttributes"]["verb"] = json!("get"),
        ];
        for change in denied {
            assert!(!allowed(change), "{:?}", review(change));
        }
        authorizer.forbid("7");
        assert!(!allowed(|_| ()));
    }

    #[test]
    fn a_right_to_a_name_needs_no_parent() {
        let authorizer = MiloAuthorizer::default();
        authorizer.allow_named("7", "n", USE);
        let bare = |spec: &mut Value| drop(spec.as_object_mut().unwrap().remove("extra"));
        assert_eq!(authorizer.decide(&review(bare)), AuthorizerAnswer::Allowed);
        let other = |spec: &mut Value| spec["resourceAttributes"]["name"] = json!("m");
        assert!(matches!(
            authorizer.decide(&review(other)),
            AuthorizerAnswer::Denied(_)
        ));
    }

    #[test]
    fn other_resources_are_allowed_and_a_network_needs_a_uid() {
        let authorizer = MiloAuthorizer::default();
        let other = |spec: &mut Value| spec["resourceAttributes"]["resource"] = json!("pods");
        assert_eq!(authorizer.decide(&review(other)), AuthorizerAnswer::Allowed);
        let without = |spec: &mut Value| drop(spec.as_object_mut().unwrap().remove("uid"));
        let AuthorizerAnswer::Failed(error) = authorizer.decide(&review(without)) else {
            panic!("decided")
        };
        assert!(error.starts_with("user UID is required"), "{error}");
    }
}
