//! The protocol of admission webhooks: `AdmissionReview`, `admission.k8s.io/v1` (Kubernetes: Dynamic Admission Control).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::field_errors::{FieldError, FieldErrors};
use super::workload::or_default;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// After so many seconds clients ask again by themselves.
const RETRY_AFTER: u32 = 1;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// What an API server asks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow, default)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    pub(crate) sub_resource: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) operation: Cow<'a, str>,
    #[serde(default)]
    pub(crate) user_info: UserInfo,
    #[serde(borrow)]
    pub(crate) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) old_object: Option<&'a RawValue>,
}

/// Group, version and kind of an object.
#[derive(Default, Deserialize)]
pub(crate) struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub(crate) group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: Cow<'a, str>,
}

/// Who makes a request (`authentication.k8s.io/v1` UserInfo).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// Name of the user.
    pub username: String,
    /// What identifies the user for all time.
    pub uid: String,
    /// Groups of the user.
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<String>,
    /// Claims, each with its values in order.
    #[serde(deserialize_with = "claims")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Go writes a claim without values as null.
fn claims<'de, D: Deserializer<'de>>(field: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let claims: BTreeMap<String, Option<Vec<String>>> = or_default(field)?;
    let claims = claims.into_iter();
    Ok(claims
        .map(|(claim, values)| (claim, values.unwrap_or_default()))
        .collect())
}

/// Reads an `AdmissionReview`.
///
/// # Errors
///
/// When the body is no request that could be answered; the text says what is wrong.
pub(crate) fn decode(body: &[u8]) -> Result<Request<'_>, String> {
    let review: Review<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is not an AdmissionReview: {error}"))?;
    let expect = |field: &str, value: &str, expected: &str| match value == expected {
        true => Ok(()),
        false => Err(format!("{field}: is {value:?}, must be {expected:?}")),
    };
    expect("apiVersion", &review.api_version, API_VERSION)?;
    expect("kind", &review.kind, KIND)?;
    let request = review.request.ok_or("request: is missing")?;
    match request.uid.is_empty() {
        true => Err("request.uid: is missing".to_owned()),
        false => Ok(request),
    }
}

/// Why a request is refused, as a `metav1.Status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Denial {
    status: &'static str,
    message: String,
    reason: &'static str,
    details: Box<Details>,
    code: u16,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    name: String,
    group: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

impl Denial {
    /// The object is not valid (422).
    pub(crate) fn invalid(name: &str, errors: FieldErrors) -> Self {
        let FieldErrors { listed, more } = errors;
        let texts: Vec<_> = listed
            .iter()
            .map(|FieldError { field, message, .. }| format!("{field}: {message}"))
            .collect();
        let rest = (more > 0).then(|| format!("and {more} more errors"));
        let message = match (texts.as_slice(), &rest) {
            ([one], None) => one.clone(),
            (several, None) => format!("[{}]", several.join(", ")),
            (several, Some(rest)) => format!("[{}, {rest}]", several.join(", ")),
        };
        let causes = listed.into_iter().map(|error| Cause {
            reason: error.reason,
            message: error.message,
            field: error.field,
        });
        let rest = rest.map(|message| Cause {
            reason: "FieldValueInvalid",
            message,
            field: String::new(),
        });
        Self {
            status: "Failure",
            message: format!("Workload.{} {name:?} is invalid: {message}", api::GROUP),
            reason: "Invalid",
            details: Box::new(Details {
                causes: causes.chain(rest).collect(),
                kind: "Workload",
                ..Details::of(name)
            }),
            code: 422,
        }
    }

    /// The requester may not do this (403).
    pub(crate) fn forbidden(name: &str, problem: &str) -> Self {
        Self {
            status: "Failure",
            message: format!("workloads.{} {name:?} is forbidden: {problem}", api::GROUP),
            reason: "Forbidden",
            details: Box::new(Details::of(name)),
            code: 403,
        }
    }

    /// It cannot be said now whether the object is accepted (503), and clients ask again by themselves.
    pub(crate) fn unavailable(name: &str, problem: &str) -> Self {
        Self {
            status: "Failure",
            message: problem.to_owned(),
            reason: "ServiceUnavailable",
            details: Box::new(Details {
                retry_after_seconds: Some(RETRY_AFTER),
                ..Details::of(name)
            }),
            code: 503,
        }
    }

    /// The question makes no sense here (400).
    pub(crate) fn bad_request(name: &str, problem: String) -> Self {
        Self {
            status: "Failure",
            message: problem,
            reason: "BadRequest",
            details: Box::new(Details::of(name)),
            code: 400,
        }
    }

    /// What is said to the user.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What the operator must know of.
    pub(crate) fn problem(&self) -> &str {
        let mut causes = self.details.causes.iter();
        let unknown = causes.find(|cause| cause.reason == "InternalError");
        unknown.map_or(&self.message, |cause| &cause.message)
    }

    /// Whether the requester can do something about it; otherwise the operator must.
    pub(crate) fn is_the_requesters(&self) -> bool {
        let unknown = |cause: &Cause| cause.reason == "InternalError";
        self.code < 500 && !self.details.causes.iter().any(unknown)
    }
}

impl Details {
    fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: api::GROUP,
            kind: "workloads",
            causes: Vec::new(),
            retry_after_seconds: None,
        }
    }
}

/// The answer to a request.
pub(crate) fn encode(uid: &str, outcome: &Result<(), Denial>) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer<'a> {
        api_version: &'a str,
        kind: &'a str,
        response: Response<'a>,
    }
    #[derive(Serialize)]
    struct Response<'a> {
        uid: &'a str,
        allowed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a Denial>,
    }
    let answer = Answer {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid,
            allowed: outcome.is_ok(),
            status: outcome.as_ref().err(),
        },
    };
    // Texts and numbers are always JSON.
    serde_json::to_vec(&answer).unwrap_or_default()
}
