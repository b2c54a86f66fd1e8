//! The only address of Milo. The front authenticates callers and routes each request to the API server of a project, or
//! to the root API server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use kube::Client;

use super::gate::Gate;
use super::lock;
use super::route::{Route, route};
use super::user::MiloUser;
use crate::forward::{Credentials, forward};
use crate::serve::BoxedBody;
use crate::status_error::StatusError;

/// Prefix of the impersonation headers.
const IMPERSONATION: &str = "impersonate-";

/// An API server behind the front.
#[derive(Clone)]
pub(super) struct ProjectServer {
    /// The client that forwards requests. It has all rights and no timeouts.
    pub(super) client: Client,
    pub(super) gate: Arc<Gate>,
}

/// The front, with its routes and users.
pub(super) struct Front {
    root: ProjectServer,
    projects: Mutex<HashMap<String, ProjectServer>>,
    users: Mutex<HashMap<String, MiloUser>>,
}

impl Front {
    pub(super) fn new(root: ProjectServer) -> Self {
        Self {
            root,
            projects: Mutex::default(),
            users: Mutex::default(),
        }
    }

    pub(super) fn add_project(&self, name: &str, upstream: ProjectServer) {
        lock(&self.projects).insert(name.to_owned(), upstream);
    }

    pub(super) fn remove_project(&self, name: &str) {
        lock(&self.projects).remove(name);
    }

    /// Adds a user and returns the token of the user.
    pub(super) fn add_user(&self, user: MiloUser) -> String {
        let mut users = lock(&self.users);
        let token = format!("token-{}", users.len());
        users.insert(token.clone(), user);
        token
    }

    /// Answers a request.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<BoxedBody> {
        match self.forward(request).await {
            Ok(response) => response,
            Err(error) => error.response(),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<BoxedBody>, StatusError> {
        let (mut parts, body) = request.into_parts();
        let user = self.authenticate(&parts.headers)?;
        let Route { project, path } = route(parts.uri.path());
        let upstream = self.upstream(project)?;
        upstream.gate.pass(&parts.method).await?;

        let broken = |error: &dyn std::fmt::Display| {
            StatusError::new(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string())
        };
        let impersonation = user.impersonation(project);
        let impersonation = impersonation.map_err(|error| broken(&format!("{error:#}")))?;
        let uri = match parts.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        parts.uri = Uri::try_from(uri).map_err(|error| broken(&error))?;
        parts.headers.extend(impersonation);
        let answer = forward(&upstream.client, parts, body, Credentials::Own).await?;
        // The gate may have closed while the request was forwarded. Then the answer is held too.
        let _ = upstream.gate.pass(&Method::GET).await;
        Ok(answer.map(|body| upstream.gate.hold(body)))
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<MiloUser, StatusError> {
        let header = headers.get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let user = token.and_then(|token| lock(&self.users).get(token).cloned());
        let user = user.ok_or_else(|| {
            StatusError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "unknown token")
        })?;
        let impersonates = |name: &HeaderName| name.as_str().starts_with(IMPERSONATION);
        if headers.keys().any(impersonates) {
            let message = "impersonation through the front is not allowed";
            return Err(StatusError::new(
                StatusCode::FORBIDDEN,
                "Forbidden",
                message,
            ));
        }
        Ok(user)
    }

    fn upstream(&self, project: Option<&str>) -> Result<ProjectServer, StatusError> {
        let Some(project) = project else {
            return Ok(self.root.clone());
        };
        let upstream = lock(&self.projects).get(project).cloned();
        upstream.ok_or_else(|| {
            let message = format!("there is no project {project:?}");
            StatusError::new(StatusCode::NOT_FOUND, "NotFound", &message)
        })
    }
}
