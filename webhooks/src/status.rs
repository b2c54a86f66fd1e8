//! HTTP errors with a `metav1.Status` body.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use serde_json::json;

use crate::bounded::bounded;

/// Returns a response with a `Status` body. `reason` is a `metav1.StatusReason`. The message is cut off, because it can
/// contain a text from the request.
pub(crate) fn response(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": code.as_u16(),
        "reason": reason,
        "message": bounded(message),
    });
    json_response(code, status.to_string().into())
}

pub(crate) fn json_response(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

pub(crate) async fn not_found(uri: Uri) -> Response {
    let message = format!("there is no webhook at {}", bounded(uri.path()));
    response(StatusCode::NOT_FOUND, "NotFound", &message)
}

pub(crate) async fn method_not_allowed(method: Method) -> Response {
    let method = bounded(method.as_str());
    let message = format!("{method} is not supported, POST is");
    let mut response = response(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", &message);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}
