//! The `Status` with which an API server refuses a request.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{AnswerBody, json_response};
use crate::kinds::Kind;

/// Why a request is refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// HTTP status code.
    pub code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// An API server answers paths that it does not know with text instead of a `Status`.
    is_text: bool,
}

impl Refusal {
    /// A refusal that names no object.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: json!({}),
            is_text: false,
        }
    }

    fn of(kind: &Kind, name: &str, code: StatusCode, reason: &'static str, problem: &str) -> Self {
        let message = format!("{} {name:?} {problem}", resource(kind));
        Self {
            details: Self::details(kind, name),
            ..Self::new(code, reason, message)
        }
    }

    /// The details of a `Status` that is about one object.
    pub(crate) fn details(kind: &Kind, name: &str) -> Value {
        match kind.group {
            "" => json!({"kind": kind.plural, "name": name}),
            group => json!({"group": group, "kind": kind.plural, "name": name}),
        }
    }

    /// There is no object of this name.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::of(kind, name, StatusCode::NOT_FOUND, "NotFound", "not found")
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        let code = StatusCode::CONFLICT;
        Self::of(kind, name, code, "AlreadyExists", "already exists")
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, problem: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {problem}",
            resource(kind)
        );
        Self {
            details: Self::details(kind, name),
            ..Self::new(StatusCode::CONFLICT, "Conflict", message)
        }
    }

    /// Other managers own fields that are applied. Gives the path and the owner of each.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let cause = |(path, owner): &(String, String)| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {owner:?}"),
                "field": path,
            })
        };
        let causes: Vec<_> = conflicts.iter().map(cause).collect();
        let message = format!("Apply failed with {} conflicts", causes.len());
        Self {
            details: json!({"causes": causes}),
            ..Self::new(StatusCode::CONFLICT, "Conflict", message)
        }
    }

    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", problem)
    }

    /// The request cannot be understood.
    pub fn bad(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", problem)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let code = StatusCode::METHOD_NOT_ALLOWED;
        let message = "the server does not allow this method on the requested resource";
        Self::new(code, "MethodNotAllowed", message)
    }

    pub(crate) fn unsupported_media_type(content_type: &str) -> Self {
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let message = format!("the API server in memory knows no patch of type {content_type:?}");
        Self::new(code, "UnsupportedMediaType", message)
    }

    /// The API server does not know the path.
    pub fn no_path() -> Self {
        Self {
            is_text: true,
            ..Self::new(StatusCode::NOT_FOUND, "NotFound", "404 page not found")
        }
    }

    /// The API server does not serve the kind. It says so in a `Status` where it serves the group itself, and not where the
    /// group is that of a CRD.
    pub(crate) fn not_served(kind: &Kind) -> Self {
        match kind.group {
            "" => {
                let message = "the server could not find the requested resource";
                Self::new(StatusCode::NOT_FOUND, "NotFound", message)
            }
            _ => Self::no_path(),
        }
    }

    /// The version is older than what the API server remembers.
    pub(crate) fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The continuation of a list is older than what the API server remembers.
    pub(crate) fn expired_list() -> Self {
        let message =
            "The provided continue parameter is too old to display a consistent list result";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The `Status`.
    pub fn status(&self) -> Value {
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

    /// The answer to the request.
    pub fn response(&self) -> Response<AnswerBody> {
        match self.is_text {
            true => json_response(self.code, format!("{}\n", self.message)),
            false => json_response(self.code, self.status().to_string()),
        }
    }
}

fn resource(kind: &Kind) -> String {
    match kind.group {
        "" => kind.plural.to_owned(),
        group => format!("{}.{group}", kind.plural),
    }
}
