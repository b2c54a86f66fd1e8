//! Decides whether an error is an outage of the whole API server.

use std::time::Duration;

use api::milo::PROJECT_SUSPENDED;
use kube::core::Status;
use multicluster::queue::{Failure, Outage};

use super::ReconcileError;

/// The HTTP codes of answers that may have a Retry-After header: `Too Many Requests` and `Service Unavailable`.
const DEFERRALS: [u16; 2] = [429, 503];

impl Failure for ReconcileError {
    fn outage(&self) -> Option<Outage> {
        let source = match self {
            Self::Api { source, .. } => source.as_ref(),
            Self::Several { first, outage, .. } => {
                return outage
                    .as_ref()
                    .map_or_else(|| first.outage(), |it| it.outage());
            }
            _ => return None,
        };
        match source {
            kube::Error::Api(status) => of_answer(status),
            // There was no answer, or the answer was not complete.
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::Auth(_) => {
                Some(Outage::Unreachable)
            }
            _ => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        let source = match self {
            Self::Api { source, .. } => source.as_ref(),
            Self::Several { retry_after, .. } => return *retry_after,
            _ => return None,
        };
        let kube::Error::Api(status) = source else {
            return None;
        };
        // The transport copies the header into the details.
        let details = status.details.as_ref()?;
        let seconds = u64::from(details.retry_after_seconds);
        (DEFERRALS.contains(&status.code) && seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

fn of_answer(status: &Status) -> Option<Outage> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        403 => causes
            .any(|cause| cause.reason == PROJECT_SUSPENDED)
            .then_some(Outage::Suspended),
        // An admission webhook failed. Only some objects use this webhook, so this is no outage.
        500.. if status.message.contains("webhook") => None,
        429 | 500.. => Some(Outage::Unreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::error::FirstError;

    fn outage(source: kube::Error) -> Option<Outage> {
        ReconcileError::api("get Pod a", source).outage()
    }

    fn answer(status: Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn an_api_server_that_does_not_answer_is_unreachable() {
        for problem in ["deadline has elapsed", "tcp connect error"] {
            let error = kube::Error::Service(problem.into());
            assert_eq!(outage(error), Some(Outage::Unreachable));
        }
    }

    #[test]
    fn answers_are_classified_by_code_and_cause() {
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
    fn an_error_of_this_process_is_no_outage() {
        let missing = ReconcileError::NotYet {
            object: "Pod a".into(),
            missing: "its Namespace".into(),
        };
        assert_eq!(missing.outage(), None);
    }

    fn refused(code: u16, seconds: u32) -> ReconcileError {
        let details = json!({"retryAfterSeconds": seconds});
        let status = json!({"code": code, "message": "busy", "details": details});
        ReconcileError::api("get Pod a", answer(status))
    }

    #[test]
    fn retry_after_counts_for_429_and_503_only() {
        for (code, seconds, expected) in [
            (429, 7, Some(7)),
            (503, 1, Some(1)),
            (429, 0, None),
            (500, 7, None),
            (403, 7, None),
        ] {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(refused(code, seconds).retry_after(), expected, "{code}");
        }
        let unreachable = ReconcileError::api("get Pod a", kube::Error::Service("EOF".into()));
        assert_eq!(unreachable.retry_after(), None);
    }

    #[test]
    fn the_first_error_of_several_steps_has_the_longest_retry_after() {
        let unreachable = || ReconcileError::api("get Pod a", kube::Error::Service("EOF".into()));
        for (steps, expected) in [
            (vec![unreachable()], None),
            (
                vec![unreachable(), refused(429, 7), refused(503, 3)],
                Some(7),
            ),
            (vec![refused(429, 3), refused(429, 7)], Some(7)),
            (vec![refused(429, 7), refused(429, 3)], Some(7)),
        ] {
            let first = &steps[0];
            let (text, outage, refusal) = (first.to_string(), first.outage(), first.refusal());
            let mut errors = FirstError::default();
            for step in steps {
                errors.note::<()>(Err(step));
            }
            let error = errors.result().unwrap_err();
            assert_eq!(error.retry_after(), expected.map(Duration::from_secs));
            let same = (error.to_string(), error.outage(), error.refusal());
            assert_eq!(same, (text, outage, refusal));
        }
    }

    #[test]
    fn the_message_about_a_webhook_is_the_same_at_each_attempt() {
        let message = |port: u16| {
            let text = format!(
                r#"failed calling webhook "a.example": failed to call webhook: read tcp 10.0.0.1:{port}: reset"#
            );
            let error = answer(json!({"code": 500, "message": text}));
            ReconcileError::api("apply Pod a", error).lasting_refusal()
        };
        assert_eq!(message(4711), message(4712));
        assert!(message(4711).is_some_and(|it| it.contains("\"a.example\"")));
    }

    #[test]
    fn a_refusal_before_an_outage_does_not_hide_the_outage() {
        let invalid = || ReconcileError::api("apply Pod a", answer(json!({"code": 422})));
        let unreachable = || ReconcileError::api("get Pod a", kube::Error::Service("EOF".into()));
        for (steps, retry_after) in [
            (vec![invalid(), refused(503, 7), invalid()], Some(7)),
            (vec![invalid(), unreachable(), refused(429, 3)], Some(3)),
            (vec![invalid(), invalid(), unreachable()], None),
        ] {
            let mut errors = FirstError::default();
            for step in steps {
                errors.note::<()>(Err(step));
            }
            assert!(errors.lasting_refusal().is_some());
            let error = errors.result().unwrap_err();
            assert_eq!(error.outage(), Some(Outage::Unreachable));
            assert_eq!(error.retry_after(), retry_after.map(Duration::from_secs));
            assert_eq!(error.refusal(), invalid().refusal());
            // The log names both problems.
            let text = error.to_string();
            assert!(text.starts_with(&invalid().to_string()) && text.contains("get Pod a"));
        }
        let mut errors = FirstError::default();
        errors.note::<()>(Err(invalid()));
        assert_eq!(errors.result().unwrap_err().outage(), None);
    }
}
