//! Classifies requests.

use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri, header};

/// Resources whose writes are not counted. A controller does not need to repeat such a write.
const NO_WRITES: [&str; 2] = ["leases", "events"];
/// Suffix of the resources for reviews. To create a review changes no state.
const REVIEWS: &str = "reviews";

/// The parts of a request that fault rules match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The user agent.
    pub user_agent: String,
}

impl RequestInfo {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        Self::new(request.method(), request.uri(), request.headers())
    }

    pub(crate) fn of_parts(request: &Parts) -> Self {
        Self::new(&request.method, &request.uri, &request.headers)
    }

    fn new(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let user_agent = |headers: &HeaderMap| {
            let value = headers.get(header::USER_AGENT)?.to_str().ok()?;
            Some(value.to_owned())
        };
        Self {
            method: method.clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            user_agent: user_agent(headers).unwrap_or_default(),
        }
    }

    /// Returns whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.has("watch", |value| value == "true")
    }

    /// Returns whether the request is for a later page of a list.
    pub fn is_continued(&self) -> bool {
        self.has("continue", |value| !value.is_empty())
    }

    /// Returns whether the request changes an object other than a Lease or an Event.
    pub fn is_write(&self) -> bool {
        let is_kind = |part: &str| NO_WRITES.contains(&part) || part.ends_with(REVIEWS);
        let reads = [Method::GET, Method::HEAD];
        !reads.contains(&self.method) && !self.path.split('/').any(is_kind)
    }

    fn has(&self, parameter: &str, holds: impl Fn(&str) -> bool) -> bool {
        let mut parameters = self.query.split('&').filter_map(|it| it.split_once('='));
        parameters.any(|(name, value)| name == parameter && holds(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_objects_are_writes() {
        for (method, path, expected) in [
            ("GET", "/api/v1/namespaces", false),
            ("POST", "/api/v1/namespaces", true),
            ("PATCH", "/apis/x/v1/namespaces/n/instances/i/status", true),
            ("DELETE", "/apis/x/v1/namespaces/n/instances/i", true),
            ("POST", "/apis/events.k8s.io/v1/namespaces/n/events", false),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                false,
            ),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                false,
            ),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request_info = RequestInfo::of(&request.body(()).expect("a request"));
            assert_eq!(request_info.is_write(), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_query_tells_watches_and_further_pages() {
        for (uri, watch, continued) in [
            ("/api/v1/pods", false, false),
            ("/api/v1/pods?limit=5&continue=", false, false),
            ("/api/v1/pods?limit=5&continue=abc", false, true),
            ("/api/v1/pods?limit=5&watch=true", true, false),
            ("/api/v1/pods?watch=false", false, false),
        ] {
            let request_info = RequestInfo::of(&Request::get(uri).body(()).expect("a request"));
            assert_eq!(
                (request_info.is_watch(), request_info.is_continued()),
                (watch, continued)
            );
        }
    }
}
