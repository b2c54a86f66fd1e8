//! What an error says of the whole API server.

use api::milo::PROJECT_SUSPENDED;
use kube::core::Status;
use multicluster::queue::{Failure, Outage};

use super::ReconcileError;

impl Failure for ReconcileError {
    fn outage(&self) -> Option<Outage> {
        let Self::Api { source, .. } = self else {
            return None;
        };
        match source.as_ref() {
            kube::Error::Api(status) => of_answer(status),
            // There was no answer, or not all of it.
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::Auth(_) => {
                Some(Outage::Unreachable)
            }
            _ => None,
        }
    }
}

fn of_answer(status: &Status) -> Option<Outage> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        403 => causes
            .any(|cause| cause.reason == PROJECT_SUSPENDED)
            .then_some(Outage::Suspended),
        // A webhook that someone has registered speaks for its objects only.
        500.. if status.message.contains("webhook") => None,
        429 | 500.. => Some(Outage::Unreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn outage(source: kube::Error) -> Option<Outage> {
        ReconcileError::api("get Pod a", source).outage()
    }

    fn answer(status: Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn an_api_server_that_does_not_answer_is_in_trouble() {
        for problem in ["deadline has elapsed", "tcp connect error"] {
            let error = kube::Error::Service(problem.into());
            assert_eq!(outage(error), Some(Outage::Unreachable));
        }
    }

    #[test]
    fn answers_say_whether_others_would_be_the_same() {
        let webhook = r#"Internal error occurred: failed calling webhook "a.example": failed to call webhook: EOF"#;
        let suspended = json!({"causes": [{"reason": "ProjectSuspended", "message": "project \"x\" is suspended"}]});
        for (status, expected) in [
            (json!({"code": 429}), Some(Outage::Unreachable)),
            (
                json!({"code": 500, "message": "etcdserver: request timed out"}),
                Some(Outage::Unreachable),
            ),
            (json!({"code": 500, "message": webhook}), None),
            (
                json!({"code": 503, "reason": "Failed to parse error data"}),
                Some(Outage::Unreachable),
            ),
            (json!({"code": 504}), Some(Outage::Unreachable)),
            (
                json!({"code": 403, "details": suspended}),
                Some(Outage::Suspended),
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
            assert_eq!(outage(answer(status.clone())), expected, "{status}");
        }
    }

    #[test]
    fn what_is_decided_here_says_nothing_of_an_api_server() {
        let missing = ReconcileError::NotYet {
            object: "Pod a".into(),
            missing: "its Namespace".into(),
        };
        assert_eq!(missing.outage(), None);
    }
}
