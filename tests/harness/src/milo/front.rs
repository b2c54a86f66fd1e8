//! The one address of Milo: knows its callers, and leads each request to the API server of a project or to the root.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kube::Client;

use super::gate::Gate;
use super::lock;
use super::refusal::Refusal;
use super::route::{Route, route};
use super::serve::Body;
use super::user::User;

/// Headers that belong to one connection, or that a client sets anew.
const NOT_FORWARDED: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// How the headers begin by which a request is made in someone else's name.
const IMPERSONATION: &str = "impersonate-";

/// An API server behind the front.
#[derive(Clone)]
pub(super) struct Upstream {
    /// With all rights, and without limits in time.
    pub(super) client: Client,
    pub(super) gate: Arc<Gate>,
}

/// What the front knows.
pub(super) struct Front {
    root: Upstream,
    projects: Mutex<HashMap<String, Upstream>>,
    users: Mutex<HashMap<String, User>>,
}

impl Front {
    pub(super) fn new(root: Upstream) -> Self {
        Self {
            root,
            projects: Mutex::default(),
            users: Mutex::default(),
        }
    }

    pub(super) fn add_project(&self, name: &str, upstream: Upstream) {
        lock(&self.projects).insert(name.to_owned(), upstream);
    }

    pub(super) fn remove_project(&self, name: &str) {
        lock(&self.projects).remove(name);
    }

    /// Gives a user a token.
    pub(super) fn add_user(&self, user: User) -> String {
        let mut users = lock(&self.users);
        let token = format!("token-{}", users.len());
        users.insert(token.clone(), user);
        token
    }

    /// Answers a request.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        match self.forward(request).await {
            Ok(response) => response,
            Err(refusal) => refusal.response(),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (mut parts, body) = request.into_parts();
        let user = self.authenticate(&parts.headers)?;
        let Route { project, path } = route(parts.uri.path());
        let upstream = self.upstream(project)?;
        upstream.gate.pass().await?;

        let broken = |error: &dyn std::fmt::Display| {
            Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string())
        };
        let impersonation = user.impersonation(project);
        let impersonation = impersonation.map_err(|error| broken(&format!("{error:#}")))?;
        let uri = match parts.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        parts.uri = Uri::try_from(uri).map_err(|error| broken(&error))?;
        parts.version = http::Version::HTTP_11;
        strip(&mut parts.headers);
        parts.headers.extend(impersonation);
        // Only answers are streams: what API servers are sent is small.
        let body = body.collect().await.map_err(|error| broken(&error))?;
        let body = kube::client::Body::from(body.to_bytes());
        let answer = upstream.client.send(Request::from_parts(parts, body)).await;
        let (mut parts, body) = answer
            .map_err(|error| {
                Refusal::new(StatusCode::BAD_GATEWAY, "BadGateway", &error.to_string())
            })?
            .into_parts();
        // A request that was on its way hangs too.
        let _ = upstream.gate.pass().await;
        strip(&mut parts.headers);
        Ok(Response::from_parts(parts, upstream.gate.hold(body)))
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<User, Refusal> {
        let header = headers.get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let user = token.and_then(|token| lock(&self.users).get(token).cloned());
        let user = user.ok_or_else(|| {
            Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", "no one's token")
        })?;
        let impersonates = |name: &HeaderName| name.as_str().starts_with(IMPERSONATION);
        if headers.keys().any(impersonates) {
            let message = "the front lets no one call in the name of others";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message));
        }
        Ok(user)
    }

    fn upstream(&self, project: Option<&str>) -> Result<Upstream, Refusal> {
        let Some(project) = project else {
            return Ok(self.root.clone());
        };
        let upstream = lock(&self.projects).get(project).cloned();
        upstream.ok_or_else(|| {
            let message = format!("there is no project {project:?}");
            Refusal::new(StatusCode::NOT_FOUND, "NotFound", &message)
        })
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in NOT_FORWARDED {
        headers.remove(name);
    }
}

/// A client for the front's own use.
pub(super) fn client(mut config: kube::Config) -> anyhow::Result<Client> {
    config.default_retry = false;
    config.read_timeout = None;
    Client::try_from(config).context("a client of the front")
}
