//! The response to a rejected request.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{AnswerBody, json_response};
use crate::kinds::Kind;
use crate::state::Key;

/// The reason why a request is rejected.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// HTTP status code.
    pub code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
    /// Whether the response is plain text instead of a `Status`. API servers answer unknown paths with plain text.
    is_text: bool,
}

impl Refusal {
    /// Creates a refusal without the name of an object.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
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

    /// Returns the details of a `Status` about one object.
    pub(crate) fn details(kind: &Kind, name: &str) -> Value {
        match kind.group {
            "" => json!({"kind": kind.plural, "name": name}),
            group => json!({"group": group, "kind": kind.plural, "name": name}),
        }
    }

    /// Returns the refusal for this reason: there is no object with this name.
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

    /// Returns the refusal for this reason: other managers own fields of the applied configuration. The message
    /// contains the path and the owner of each field.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let cause = |(path, owner): &(String, String)| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {owner:?}"),
                "field": path,
            })
        };
        let causes: Vec<_> = conflicts.iter().map(cause).collect();
        let plural = if causes.len() == 1 { "" } else { "s" };
        let message = format!("Apply failed with {} conflict{plural}", causes.len());
        Self {
            details: json!({"causes": causes}),
            ..Self::new(StatusCode::CONFLICT, "Conflict", message)
        }
    }

    /// Returns the refusal for this reason: the UID or the resource version of the object differs from the precondition
    /// of a delete.
    pub(crate) fn precondition(
        kind: &Kind,
        name: &str,
        field: &str,
        asked: &str,
        found: &str,
    ) -> Self {
        let end = match field {
            "UID" => "The object might have been deleted and then recreated",
            _ => "The object might have been modified",
        };
        let problem = format!(
            "the {field} in the precondition ({asked}) does not match the {field} in record ({found}). {end}"
        );
        let conflict = Self::conflict(kind, name, &problem);
        let (plural, singular) = (resource(kind), kind_and_group(kind));
        let mut details = conflict.details.clone();
        details["kind"] = kind.name.into();
        Self {
            message: conflict.message.replacen(&plural, &singular, 1),
            details,
            ..conflict
        }
    }

    /// Returns the refusal for this reason: the schema of the kind does not have a field of the applied configuration.
    pub(crate) fn undeclared(kind: &Kind, (namespace, name): &Key, path: &str) -> Self {
        let Kind {
            group,
            version,
            name: kind,
            ..
        } = kind;
        let message = format!(
            "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {path}: field not \
             declared in schema"
        );
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// Returns the refusal for this reason: an immutable field has another value.
    pub(crate) fn immutable(kind: &Kind, name: &str, field: &str, value: &str) -> Self {
        let problem = format!("Invalid value: {value:?}: field is immutable");
        let cause = json!({"field": field, "message": problem, "reason": "FieldValueInvalid"});
        let mut details = Self::details(kind, name);
        details["kind"] = kind.name.into();
        // A kube-apiserver checks the metadata twice, so the error appears twice.
        details["causes"] = json!([cause, cause]);
        let message = format!(
            "{} {name:?} is invalid: {field}: {problem}",
            kind_and_group(kind)
        );
        Self {
            details,
            ..Self::invalid(message)
        }
    }

    /// Returns the refusal for this reason: a JSON patch cannot be applied, or a test in the patch fails.
    pub(crate) fn patch_fails() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self {
            details: json!({}),
            ..Self::invalid(message)
        }
    }

    /// Returns the refusal for this reason: an apply has no field manager.
    pub(crate) fn no_manager() -> Self {
        let problem = "Required value: is required for apply patch";
        let cause =
            json!({"field": "fieldManager", "message": problem, "reason": "FieldValueRequired"});
        Self {
            details: json!({"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause]}),
            ..Self::invalid(format!(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {problem}"
            ))
        }
    }

    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", problem)
    }

    /// Returns the refusal for this reason: the request cannot be parsed.
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

    /// Returns the refusal for this reason: the API server does not know the path.
    pub fn no_path() -> Self {
        Self {
            is_text: true,
            ..Self::new(StatusCode::NOT_FOUND, "NotFound", "404 page not found")
        }
    }

    /// Returns the refusal for this reason: the API server does not serve the kind. The response is a `Status` for the
    /// core group, because this group always exists. For the groups of CRDs, the response is plain text.
    pub(crate) fn not_served(kind: &Kind) -> Self {
        match kind.group {
            "" => {
                let message = "the server could not find the requested resource";
                Self {
                    details: json!({}),
                    ..Self::new(StatusCode::NOT_FOUND, "NotFound", message)
                }
            }
            _ => Self::no_path(),
        }
    }

    /// Returns the refusal for this reason: the resource version is older than the history of the API server.
    pub(crate) fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the refusal for this reason: the continue token of a list is older than the history of the API server.
    pub(crate) fn expired_list() -> Self {
        let message =
            "The provided continue parameter is too old to display a consistent list result";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the refusal for this reason: the version of a list is older than the history of the API server.
    pub(crate) fn expired_version() -> Self {
        let message = "The resourceVersion for the provided list is too old.";
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the refusal for this reason: the API server has not reached the version of a list yet.
    pub(crate) fn future_version(version: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {version}, current: {current}");
        let cause = json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        });
        Self {
            details: json!({"causes": [cause], "retryAfterSeconds": 1}),
            ..Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
        }
    }

    /// Returns the `Status`.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1",
            "code": self.code.as_u16(),
            "kind": "Status",
            "message": self.message,
            "metadata": {},
            "status": "Failure",
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// Returns the HTTP response.
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

fn kind_and_group(kind: &Kind) -> String {
    match kind.group {
        "" => kind.name.to_owned(),
        group => format!("{}.{group}", kind.name),
    }
}
