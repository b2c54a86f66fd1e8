//! Error responses of API servers.

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::serve::BoxedBody;

/// An HTTP error response with a Kubernetes `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusError {
    code: StatusCode,
    status: Value,
    retry_after: Option<u32>,
}

impl StatusError {
    /// Creates an error with this HTTP status code. `reason` is the reason of the `Status`, such as `Forbidden`.
    pub fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        Self::with_details(code, reason, message, &json!({}))
    }

    /// Returns the answer of Milo to a write in a suspended project.
    pub fn suspended(project: &str) -> Self {
        let message = format!("project {project:?} is suspended");
        let details = json!({"causes": [{"reason": "ProjectSuspended", "message": message}]});
        Self::with_details(StatusCode::FORBIDDEN, "Forbidden", &message, &details)
    }

    fn with_details(code: StatusCode, reason: &str, message: &str, details: &Value) -> Self {
        Self {
            code,
            retry_after: None,
            status: json!({
                "apiVersion": "v1",
                "kind": "Status",
                "metadata": {},
                "status": "Failure",
                "code": code.as_u16(),
                "reason": reason,
                "message": message,
                "details": details,
            }),
        }
    }

    /// Returns the error 503. An API server sends it while it starts.
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    /// Returns the error 409: the object has changed since it was read.
    pub fn conflict() -> Self {
        let message = "the object has been modified";
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// Returns the error 410: the resource version or the continue token is too old.
    pub fn expired() -> Self {
        let message = "too old resource version";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the error 429 with the header `Retry-After`, in seconds.
    pub fn too_many_requests(retry_after: u32) -> Self {
        let message = "too many requests";
        let details = json!({"retryAfterSeconds": retry_after});
        let code = StatusCode::TOO_MANY_REQUESTS;
        Self {
            retry_after: Some(retry_after),
            ..Self::with_details(code, "TooManyRequests", message, &details)
        }
    }

    /// Returns the error 500. An API server sends it when a request to etcd times out.
    pub fn internal() -> Self {
        let message = "etcdserver: request timed out";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Returns the `Status`.
    pub(crate) fn status(&self) -> &Value {
        &self.status
    }

    pub(crate) fn response(&self) -> Response<BoxedBody> {
        let mut response = json_response(self.code, &self.status);
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

pub(crate) fn json_response(code: StatusCode, body: &Value) -> Response<BoxedBody> {
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
