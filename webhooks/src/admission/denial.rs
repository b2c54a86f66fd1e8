//! The reason for a denial, as the `metav1.Status` that the API server returns to the requester.

use serde::Serialize;

use super::field_error::{FieldErrorList, StatusCause};
use crate::bounded::{bounded, bounded_message};

/// Value of `retryAfterSeconds` (Retry-After), in seconds. Callers repeat the request automatically after this time.
const RETRY_AFTER_SECONDS: u32 = 1;

/// A kind that has an admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmittedKind {
    Workload,
    WorkloadDeployment,
}

impl AdmittedKind {
    /// Returns the name of the kind.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Workload => "Workload",
            Self::WorkloadDeployment => "WorkloadDeployment",
        }
    }

    /// Returns the plural, as in the path of a request.
    const fn resource(self) -> &'static str {
        match self {
            Self::Workload => "workloads",
            Self::WorkloadDeployment => "workloaddeployments",
        }
    }
}

/// The reason for a denial, as a `metav1.Status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Denial {
    status: &'static str,
    message: String,
    reason: &'static str,
    details: Box<StatusDetails>,
    code: u16,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    name: String,
    group: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

impl Denial {
    /// Returns a denial: the Workload is not valid (422).
    pub(crate) fn invalid(name: &str, errors: FieldErrorList) -> Self {
        let FieldErrorList { listed, more, .. } = errors;
        let texts: Vec<_> = listed
            .iter()
            .map(|StatusCause { field, message, .. }| format!("{field}: {message}"))
            .collect();
        let rest = (more > 0).then(|| format!("and {more} more errors"));
        let message = match (texts.as_slice(), &rest) {
            ([one], None) => one.clone(),
            (several, None) => format!("[{}]", several.join(", ")),
            (several, Some(rest)) => format!("[{}, {rest}]", several.join(", ")),
        };
        let rest = rest.map(|message| StatusCause {
            reason: "FieldValueInvalid",
            message,
            field: String::new(),
        });
        let (name, kind) = (&bounded(name), AdmittedKind::Workload.as_str());
        Self {
            status: "Failure",
            message: format!("{kind}.{} {name:?} is invalid: {message}", api::GROUP),
            reason: "Invalid",
            details: Box::new(StatusDetails {
                causes: listed.into_iter().chain(rest).collect(),
                kind,
                ..StatusDetails::of(AdmittedKind::Workload, name)
            }),
            code: 422,
        }
    }

    /// Returns a denial: the requester has no right to make the request (403).
    pub(crate) fn forbidden(kind: AdmittedKind, name: &str, problem: &str) -> Self {
        let (name, problem) = (&bounded(name), bounded_message(problem));
        let resource = kind.resource();
        Self {
            status: "Failure",
            message: format!("{resource}.{} {name:?} is forbidden: {problem}", api::GROUP),
            reason: "Forbidden",
            details: Box::new(StatusDetails::of(kind, name)),
            code: 403,
        }
    }

    /// Returns a denial: the server cannot decide now (503). The client of the requester repeats the request
    /// automatically.
    pub(crate) fn unavailable(name: &str, problem: &str) -> Self {
        Self {
            status: "Failure",
            message: problem.to_owned(),
            reason: "ServiceUnavailable",
            details: Box::new(StatusDetails {
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..StatusDetails::of(AdmittedKind::Workload, name)
            }),
            code: 503,
        }
    }

    /// Returns a denial: the webhook of this kind cannot handle the request (400).
    pub(crate) fn bad_request(kind: AdmittedKind, name: &str, problem: &str) -> Self {
        Self {
            status: "Failure",
            message: bounded(problem).into_owned(),
            reason: "BadRequest",
            details: Box::new(StatusDetails::of(kind, name)),
            code: 400,
        }
    }

    /// Returns the message for the requester.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message for the operator: the first internal error if there is one, else the message for the
    /// requester.
    pub(crate) fn operator_message(&self) -> &str {
        let mut causes = self.details.causes.iter();
        let internal = causes.find(|cause| is_internal(cause));
        internal.map_or(&self.message, |cause| &cause.message)
    }

    /// Returns whether the requester can fix the cause. If not, only the operator can fix the cause.
    pub(crate) fn is_requester_error(&self) -> bool {
        self.code < 500 && !self.details.causes.iter().any(is_internal)
    }
}

fn is_internal(cause: &StatusCause) -> bool {
    cause.reason == "InternalError"
}

impl StatusDetails {
    fn of(kind: AdmittedKind, name: &str) -> Self {
        Self {
            name: bounded(name).into_owned(),
            group: api::GROUP,
            kind: kind.resource(),
            causes: Vec::new(),
            retry_after_seconds: None,
        }
    }
}
