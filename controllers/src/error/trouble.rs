//! What an error says of the whole API server.

use kube::core::Status;
use planes::queue::{Failure, Trouble};

use super::ReconcileError;

/// What Milo gives as the cause where it refuses to write to a project that is suspended (platform.md 1.8).
const PROJECT_SUSPENDED: &str = "ProjectSuspended";

impl Failure for ReconcileError {
    fn trouble(&self) -> Option<Trouble> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match source.as_ref() {
            kube::Error::Api(status) => of_answer(status),
            // There was no answer, or not all of it.
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::Auth(_) => {
                Some(Trouble::Unreachable)
            }
            _ => None,
        }
    }
}

fn of_answer(status: &Status) -> Option<Trouble> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        403 => causes
            .any(|cause| cause.reason == PROJECT_SUSPENDED)
            .then_some(Trouble::Suspended),
        // A webhook that someone has registered speaks for its objects only.
        500.. if status.message.contains("webhook") => None,
        429 | 500.. => Some(Trouble::Unreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn trouble(source: kube::Error) -> Option<Trouble> {
        ReconcileError::api("get Pod a", source).trouble()
    }

    fn answer(status: Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn an_api_server_that_does_not_answer_is_in_trouble() {
        for problem in ["deadline has elapsed", "tcp connect error"] {
            let error = kube::Error::Service(problem.into());
            assert_eq!(trouble(error), Some(Trouble::Unreachable));
        }
    }

    #[test]
    fn answers_say_whether_others_would_be_the_same() {
        let webhook = r#"Internal error occurred: failed calling webhook "a.example": failed to call webhook: EOF"#;
        let suspended = json!({"causes": [{"reason": "ProjectSuspended", "message": "project \"x\" is suspended"}]});
        for (status, expected) in [
            (json!({"code": 429}), Some(Trouble::Unreachable)),
            (
                json!({"code": 500, "message": "etcdserver: request timed out"}),
                Some(Trouble::Unreachable),
            ),
            (json!({"code": 500, "message": webhook}), None),
            (
                json!({"code": 503, "reason": "Failed to parse error data"}),
                Some(Trouble::Unreachable),
            ),
            (json!({"code": 504}), Some(Trouble::Unreachable)),
            (
                json!({"code": 403, "details": suspended}),
                Some(Trouble::Suspended),
            ),
            (
                json!({"code": 403, "details": {"causes": [{"reason": "FieldValueForbidden"}]}}),
                None,
            ),
            (json!({"code": 403}), None),
            (json!({"code": 404}), None),
            (json!({"code": 409}), None),
            (json!({"code": 422}), None),
        ] {
            assert_eq!(trouble(answer(status.clone())), expected, "{status}");
        }
    }

    #[test]
    fn what_is_decided_here_says_nothing_of_an_api_server() {
        let missing = ReconcileError::NotYet {
            object: "Pod a".into(),
            missing: "its Namespace".into(),
        };
        assert_eq!(missing.trouble(), None);
    }
}
