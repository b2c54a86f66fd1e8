//! Answers that refuse.

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::serve::Body;

/// An HTTP error with a Kubernetes `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    code: StatusCode,
    status: Value,
}

impl Refusal {
    /// An error with this code; `reason` is that of the `Status`, such as `Forbidden`.
    pub fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        Self::with_details(code, reason, message, &json!({}))
    }

    /// What Milo answers to writes while a project is suspended.
    pub fn suspended(project: &str) -> Self {
        let message = format!("project {project:?} is suspended");
        let details = json!({"causes": [{"reason": "ProjectSuspended", "message": message}]});
        Self::with_details(StatusCode::FORBIDDEN, "Forbidden", &message, &details)
    }

    fn with_details(code: StatusCode, reason: &str, message: &str, details: &Value) -> Self {
        Self {
            code,
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

    /// 503, as from an API server that starts.
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    pub(crate) fn response(&self) -> Response<Body> {
        json_response(self.code, &self.status)
    }
}

pub(crate) fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
