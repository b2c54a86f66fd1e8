//! What an API server answers to what it does not do.

use http::StatusCode;
use serde_json::{Value, json};

use super::kinds::Kind;

/// A Status with a reason.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Refusal {
    pub(super) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: json!({}),
        }
    }

    fn of(kind: &Kind, name: &str, code: StatusCode, reason: &'static str, problem: &str) -> Self {
        let resource = match kind.group {
            "" => kind.plural.to_owned(),
            group => format!("{}.{group}", kind.plural),
        };
        Self {
            code,
            reason,
            message: format!("{resource} \"{name}\" {problem}"),
            details: json!({"group": kind.group, "kind": kind.plural, "name": name}),
        }
    }

    /// There is no object of this name.
    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::of(kind, name, StatusCode::NOT_FOUND, "NotFound", "not found")
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        let code = StatusCode::CONFLICT;
        Self::of(kind, name, code, "AlreadyExists", "already exists")
    }

    pub(super) fn conflict(kind: &Kind, name: &str, problem: &str) -> Self {
        Self::of(kind, name, StatusCode::CONFLICT, "Conflict", problem)
    }

    pub(super) fn invalid(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", problem)
    }

    pub(super) fn bad(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", problem)
    }

    /// No such path, as an API server says it that does not serve what is asked for.
    pub(super) fn no_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn expired() -> Self {
        let message = "too old resource version";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(super) fn status(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "code": self.code.as_u16(),
            "details": self.details,
            "kind": "Status",
            "message": self.message,
            "metadata": {},
            "reason": self.reason,
            "status": "Failure",
        })
    }
}
